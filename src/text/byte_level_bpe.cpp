// SPDX-License-Identifier: Apache-2.0
#include "src/text/byte_level_bpe.h"

#include <algorithm>
#include <utility>

#include "src/base/span.h"
#include "src/base/utf8.h"
#include "src/text/bpe_files.h"
#include "src/text/unicode_tables.h"
#include "src/text/vocabulary.h"

namespace bascule {
namespace {

// Bytes of 's 't 're 've 'm 'll 'd if one begins at `place`, else 0.
std::size_t contraction_bytes(std::string_view text, std::size_t place) noexcept {
  if (text[place] != '\'' || text.size() - place < 2) return 0;
  const char first = text[place + 1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (text.size() - place < 3) return 0;
  const char second = text[place + 2];
  if ((first == 'r' || first == 'v') && second == 'e') return 3;
  return first == 'l' && second == 'l' ? 3 : 0;
}

CharacterClass class_at(std::string_view text, std::size_t place) noexcept {
  return character_class(utf8_character(text, place).code_point);
}

// The end of the run of characters of one class that begins at `place`, and in *last where its last character begins.
std::size_t run_end(std::string_view text, std::size_t place, CharacterClass wanted, std::size_t* last) noexcept {
  *last = place;
  while (place < text.size()) {
    const Utf8Character character = utf8_character(text, place);
    if (character_class(character.code_point) != wanted) break;
    *last = place;
    place += character.bytes;
  }
  return place;
}

}  // namespace

std::size_t piece_end(std::string_view text, std::size_t place) noexcept {
  const std::size_t contraction = contraction_bytes(text, place);
  if (contraction > 0) return place + contraction;
  std::size_t last = place;
  const CharacterClass first = class_at(text, place);
  if (first != CharacterClass::kSpace) return run_end(text, place, first, &last);
  if (text[place] == ' ' && place + 1 < text.size()) {
    const CharacterClass second = class_at(text, place + 1);
    if (second != CharacterClass::kSpace) return run_end(text, place + 1, second, &last);
  }
  // Takes a run of white space but leaves its last character to the next piece, unless the text ends there.
  const std::size_t end = run_end(text, place, CharacterClass::kSpace, &last);
  return end == text.size() || last == place ? end : last;
}

std::size_t clip_piece_end(std::string_view text, std::size_t place) noexcept {
  for (const std::string_view name : {"<|startoftext|>", "<|endoftext|>"}) {
    if (text.compare(place, name.size(), name) == 0) return place + name.size();
  }
  const std::size_t contraction = contraction_bytes(text, place);
  if (contraction > 0) return place + contraction;
  std::size_t last = place;
  const Utf8Character first = utf8_character(text, place);
  const CharacterClass first_class = character_class(first.code_point);
  if (first_class == CharacterClass::kNumber) return place + first.bytes;
  return run_end(text, place, first_class, &last);
}

std::size_t skip_space(std::string_view text, std::size_t place) noexcept {
  std::size_t last = place;
  return run_end(text, place, CharacterClass::kSpace, &last);
}

std::size_t skip_space_back(std::string_view text, std::size_t place) noexcept {
  while (place > 0) {
    std::size_t start = place - 1;
    while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    if (class_at(text, start) != CharacterClass::kSpace) break;
    place = start;
  }
  return place;
}

namespace {

// A stretch of a text between added tokens. A space that was put before it is no part of the text.
struct Stretch {
  std::string_view bytes;
  std::size_t place = 0;       // in the text, of its first byte
  std::size_t put_before = 0;  // bytes of it that are not in the text
};

class ByteLevelBpe final : public Tokenizer {
 public:
  ByteLevelBpe(TokenizerFacts facts, Vocabulary vocabulary, bool adds_space)
      : Tokenizer(std::move(facts)), vocabulary_(std::move(vocabulary)), adds_space_(adds_space) {}
  std::size_t scratch_bytes(std::size_t longest_text_bytes) const noexcept override {
    return adds_space_ ? word_scratch_bytes(longest_text_bytes) : MergeScratch::bytes(longest_text_bytes);
  }
  std::size_t word_scratch_bytes(std::size_t longest_text_bytes) const noexcept override {
    return front_bytes(longest_text_bytes) + MergeScratch::bytes(longest_text_bytes + 1);
  }

 private:
  // Room for a text with a space before it.
  static std::size_t front_bytes(std::size_t text_bytes) noexcept { return align_up(text_bytes + 1, kCacheLine); }

  Status tokenize(std::string_view text, TokenOutput& output, Span<std::byte> scratch) const noexcept override {
    return tokenize(text, adds_space_, output, scratch);
  }
  Status tokenize_word(std::string_view word, TokenOutput& output, Span<std::byte> scratch) const noexcept override {
    return tokenize(word, true, output, scratch);
  }
  Status tokenize(std::string_view text, bool adds_space, TokenOutput& output, Span<std::byte> scratch) const noexcept;
  Status tokenize_stretch(const Stretch& stretch, TokenOutput& output, MergeScratch& scratch) const noexcept;

  Vocabulary vocabulary_;
  bool adds_space_;  // before each stretch that has none
};

// The token of bytes [begin, end) of a stretch. Spaces at its ends do not count as its place.
void put(std::int32_t id, const Stretch& stretch, std::size_t begin, std::size_t end, TokenOutput& output) noexcept {
  if (output.keeps_places()) {
    begin = std::max(begin, stretch.put_before);
    while (begin < end && stretch.bytes[begin] == ' ') ++begin;
    while (end > begin && stretch.bytes[end - 1] == ' ') --end;
  }
  const std::size_t moved = stretch.place - stretch.put_before;
  output.add(id, begin + moved, end + moved);
}

Status ByteLevelBpe::tokenize_stretch(const Stretch& stretch, TokenOutput& output,
                                      MergeScratch& scratch) const noexcept {
  for (std::size_t begin = 0; begin < stretch.bytes.size() && !output.is_done();) {
    const std::size_t next = piece_end(stretch.bytes, begin);
    const std::string_view piece = stretch.bytes.substr(begin, next - begin);
    const std::int32_t word = vocabulary_.words.find(piece);
    if (word >= 0) {
      put(word, stretch, begin, next, output);
    } else if (piece.size() > scratch.longest_piece_bytes()) {
      return Status{StatusCode::kBadSample, {static_cast<std::int64_t>(stretch.place + begin), kPieceTooLong}};
    } else {
      const PieceMerger merger(piece, vocabulary_, scratch);
      for (std::int32_t i = merger.first(); i >= 0;) {
        const std::int32_t after = merger.next(i);
        const std::size_t end = after >= 0 ? begin + static_cast<std::size_t>(after) : next;
        put(merger.token(i), stretch, begin + static_cast<std::size_t>(i), end, output);
        i = after;
      }
    }
    begin = next;
  }
  return ok_status();
}

Status ByteLevelBpe::tokenize(std::string_view text, bool adds_space, TokenOutput& output,
                              Span<std::byte> scratch) const noexcept {
  const std::size_t front = adds_space ? front_bytes(text.size()) : 0;
  MergeScratch merging(scratch.subspan(front, scratch.size() - front));
  char* const copy = static_cast<char*>(static_cast<void*>(scratch.data()));
  for (AddedMatch added; added.next < text.size() && !output.is_done();) {
    const std::size_t place = added.end;
    added = vocabulary_.added.find(text, added);
    Stretch stretch{text.substr(place, added.begin - place), place};
    if (adds_space && !stretch.bytes.empty() && stretch.bytes.front() != ' ') {
      copy[0] = ' ';
      std::copy(stretch.bytes.begin(), stretch.bytes.end(), copy + 1);
      stretch = {std::string_view(copy, stretch.bytes.size() + 1), place, 1};
    }
    BASCULE_TRY(tokenize_stretch(stretch, output, merging));
    if (added.id >= 0) {
      const std::size_t begin = skip_space(text, added.begin);
      output.add(added.id, begin, std::max(begin, skip_space_back(text, added.end)));
    }
  }
  return ok_status();
}

}  // namespace

std::unique_ptr<const Tokenizer> load_byte_level_bpe(const TokenizerFolder& folder) {
  TokenizerFacts facts;
  const BpeFiles files = read_roberta_files(folder);
  Vocabulary vocabulary = make_vocabulary(files, &facts);
  facts.spaces_words_alone = !files.adds_space;
  return std::make_unique<ByteLevelBpe>(std::move(facts), std::move(vocabulary), files.adds_space);
}

std::vector<std::string> byte_level_bpe_texts(const TokenizerFolder& folder) {
  return token_texts(read_roberta_files(folder));
}

}  // namespace bascule
