// SPDX-License-Identifier: Apache-2.0
#include "src/judge/rouge.h"

#include <algorithm>

#include "src/base/check.h"

namespace bascule {
namespace {

constexpr std::size_t kMostBytes = (std::size_t{1} << 31) - 1;  // numbers of words, and places of letters, have 32 bits
constexpr std::uint32_t kNoWord = 0xffffffffu;
constexpr std::size_t kLongestUnstemmed = 3;
constexpr std::size_t kBits = 64;

bool begins_at(std::string_view text, std::size_t place, std::string_view part) noexcept {
  return text.compare(place, part.size(), part) == 0;
}

// The letter or digit that Python's str.lower() makes of the character at *place, 0 if it makes none; *place moves
// past it. Two characters beyond ASCII have an ASCII letter as their lower case.
char next_letter(std::string_view text, std::size_t* place) noexcept {
  const std::size_t begin = (*place)++;
  const char c = text[begin];
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) return c;
  // U+0130 becomes i and U+0307. Its second byte is read next and separates words, as U+0307 does.
  if (begins_at(text, begin, "\xC4\xB0")) return 'i';
  if (!begins_at(text, begin, "\xE2\x84\xAA")) return '\0';
  *place += 2;  // U+212A, the sign of Kelvin
  return 'k';
}

// FNV-1a.
std::uint64_t hash_of(std::string_view word) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char letter : word) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  return hash;
}

std::size_t power_of_two_from(std::size_t least) noexcept {
  std::size_t power = 1;
  while (power < least) power *= 2;
  return power;
}

RougeScore score_of(std::size_t matches, std::size_t of_target, std::size_t of_prediction) noexcept {
  RougeScore score;
  score.precision = static_cast<double>(matches) / static_cast<double>(std::max<std::size_t>(of_prediction, 1));
  score.recall = static_cast<double>(matches) / static_cast<double>(std::max<std::size_t>(of_target, 1));
  const double sum = score.precision + score.recall;
  if (sum > 0.0) score.f = 2.0 * score.precision * score.recall / sum;
  return score;
}

// Elements that two ascending lists share, each as often as both have it.
std::size_t common_elements(Span<const std::uint64_t> a, Span<const std::uint64_t> b) noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i] == b[j]) ++count;
    const bool takes_a = a[i] <= b[j], takes_b = b[j] <= a[i];
    i += takes_a ? 1 : 0;
    j += takes_b ? 1 : 0;
  }
  return count;
}

}  // namespace

Rouge::Rouge(const RougeLimits& limits) noexcept
    : limits_{limits.bytes, std::min(limits.words, most_words(limits.bytes))},
      table_size_(power_of_two_from(4 * limits_.words)) {
  BASCULE_CHECK(limits.bytes <= kMostBytes);
  bytes_ = place_arrays(nullptr);
}

void Rouge::seal(std::byte* memory) noexcept { place_arrays(memory); }

std::size_t Rouge::place_arrays(std::byte* memory) noexcept {
  ArrayCutter cutter(memory);
  const std::size_t words = limits_.words;
  for (Text* const text : {&target_, &prediction_}) {
    cutter.cut(&text->words, words);
    cutter.cut(&text->sentences, words + 1);
    cutter.cut(&text->ngrams, words);
  }
  cutter.cut(&letters_, 2 * limits_.bytes);
  cutter.cut(&known_, 2 * words);
  cutter.cut(&table_, table_size_);
  cutter.cut(&unmatched_, 2 * words);
  cutter.cut(&lengths_, words + 1);
  cutter.cut(&goes_left_, words * divide_up(words, kBits));
  cutter.cut(&is_common_, words);
  return cutter.used_bytes();
}

RougeScores Rouge::score(std::string_view target, std::string_view prediction) noexcept {
  known_count_ = letter_count_ = 0;
  std::fill_n(table_, table_size_, kNoWord);
  read(target, &target_);
  read(prediction, &prediction_);

  const std::size_t common = longest_common(target_.all_words(), prediction_.all_words(), nullptr);
  RougeScores scores;
  scores.rouge1 = score_ngrams(1);
  scores.rouge2 = score_ngrams(2);
  scores.rougeL = score_of(common, target_.word_count, prediction_.word_count);
  scores.rougeLsum = score_of(union_matches(), target_.word_count, prediction_.word_count);
  return scores;
}

bool Rouge::has_words(std::string_view text) noexcept {
  for (std::size_t place = 0; place < text.size();) {
    if (next_letter(text, &place) != '\0') return true;
  }
  return false;
}

void Rouge::read(std::string_view bytes, Text* text) noexcept {
  bytes = bytes.substr(0, limits_.bytes);
  text->word_count = text->sentence_count = 0;
  bool begins_line = true;
  std::size_t length = 0;  // letters so far of the word that is being read
  for (std::size_t place = 0; text->word_count < limits_.words;) {
    const bool is_end = place == bytes.size();
    const char byte = is_end ? '\0' : bytes[place];
    const char letter = is_end ? '\0' : next_letter(bytes, &place);
    if (letter != '\0') {
      letters_[letter_count_ + length++] = letter;
      continue;
    }
    if (length > 0) {
      if (begins_line) text->sentences[text->sentence_count++] = static_cast<std::uint32_t>(text->word_count);
      begins_line = false;
      text->words[text->word_count++] = number_of_word(length);
      length = 0;
    }
    if (is_end) break;
    if (byte == '\n') begins_line = true;
  }
  text->sentences[text->sentence_count] = static_cast<std::uint32_t>(text->word_count);
}

std::uint32_t Rouge::number_of_word(std::size_t length) noexcept {
  char* const letters = letters_ + letter_count_;
  if (length > kLongestUnstemmed) length = porter_stem(letters, length);
  const std::string_view word(letters, length);
  std::size_t slot = hash_of(word) & (table_size_ - 1);
  for (; table_[slot] != kNoWord; slot = (slot + 1) & (table_size_ - 1)) {
    const KnownWord& known = known_[table_[slot]];
    if (std::string_view(letters_ + known.begin, known.length) == word) return table_[slot];
  }
  table_[slot] = static_cast<std::uint32_t>(known_count_);
  known_[known_count_] = {static_cast<std::uint32_t>(letter_count_), static_cast<std::uint32_t>(length)};
  letter_count_ += length;
  return static_cast<std::uint32_t>(known_count_++);
}

RougeScore Rouge::score_ngrams(std::size_t n) noexcept {
  const auto sorted_ngrams = [&](const Text& text) noexcept {
    const std::size_t count = text.word_count < n ? 0 : text.word_count - n + 1;
    for (std::size_t i = 0; i < count; ++i) {
      text.ngrams[i] = 0;
      for (std::size_t k = i; k < i + n; ++k) text.ngrams[i] = text.ngrams[i] << 32 | text.words[k];
    }
    std::sort(text.ngrams, text.ngrams + count);
    return Span<const std::uint64_t>(text.ngrams, count);
  };
  const Span<const std::uint64_t> of_target = sorted_ngrams(target_), of_prediction = sorted_ngrams(prediction_);
  return score_of(common_elements(of_target, of_prediction), of_target.size(), of_prediction.size());
}

std::size_t Rouge::longest_common(WordNumbers target, WordNumbers prediction, std::uint64_t* goes_left) noexcept {
  const std::size_t row_size = divide_up(prediction.size(), kBits);
  if (goes_left != nullptr) std::fill_n(goes_left, target.size() * row_size, std::uint64_t{0});
  // lengths_[j]: of the target's words so far with the first j of the prediction.
  std::fill_n(lengths_, prediction.size() + 1, 0u);
  for (std::size_t i = 0; i < target.size(); ++i) {
    std::uint32_t diagonal = 0;
    for (std::size_t j = 0; j < prediction.size(); ++j) {
      const std::uint32_t left = lengths_[j], up = lengths_[j + 1];
      lengths_[j + 1] = target[i] == prediction[j] ? diagonal + 1 : std::max(left, up);
      diagonal = up;
      if (goes_left != nullptr && left > up) goes_left[i * row_size + j / kBits] |= std::uint64_t{1} << j % kBits;
    }
  }
  return lengths_[prediction.size()];
}

void Rouge::mark_common(WordNumbers target, WordNumbers prediction) noexcept {
  longest_common(target, prediction, goes_left_);
  const std::size_t row_size = divide_up(prediction.size(), kBits);
  for (std::size_t i = target.size(), j = prediction.size(); i > 0 && j > 0;) {
    // Where there are several longest subsequences, the way back from the ends finds the one that rouge_score finds.
    if (target[i - 1] == prediction[j - 1]) {
      is_common_[--i] = true;
      --j;
    } else if ((goes_left_[(i - 1) * row_size + (j - 1) / kBits] >> (j - 1) % kBits & 1) != 0) {
      --j;
    } else {
      --i;
    }
  }
}

std::size_t Rouge::union_matches() noexcept {
  std::fill_n(unmatched_, known_count_, 0u);
  for (const std::uint32_t word : prediction_.all_words()) ++unmatched_[word];
  std::size_t matches = 0;
  for (std::size_t t = 0; t < target_.sentence_count; ++t) {
    const WordNumbers sentence = target_.sentence(t);
    std::fill_n(is_common_, sentence.size(), false);
    for (std::size_t p = 0; p < prediction_.sentence_count; ++p) mark_common(sentence, prediction_.sentence(p));
    // rouge_score counts the target's words down as well. They cannot run out: each of its places matches once at most.
    for (std::size_t i = 0; i < sentence.size(); ++i) {
      if (!is_common_[i] || unmatched_[sentence[i]] == 0) continue;
      --unmatched_[sentence[i]];
      ++matches;
    }
  }
  return matches;
}

}  // namespace bascule
