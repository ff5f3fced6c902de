// SPDX-License-Identifier: Apache-2.0
// ROUGE: how many of its words a predicted text shares with a target text, its reference. The scores are those of the
// Python package rouge_score 0.1.2 with use_stemmer=True, bit for bit.
//
//   Rouge rouge({4096, 512});                                    // before the seal
//   rouge.seal(memory);                                          // rouge.bytes() of it
//   const RougeScores scores = rouge.score(target, prediction);  // sealed: allocates nothing
//
// - Words are the runs of a-z and 0-9 in the text in lower case, each of 4 letters or more replaced by its stem. All
//   else separates words. Bytes that are not UTF-8 separate them too.
// - Matches are counted in words (ROUGE-1), in pairs of neighbours (ROUGE-2), both as often as both texts have them; as
//   the longest common subsequence of words (ROUGE-L); and per line (ROUGE-Lsum): a line of the target matches where
//   its longest common subsequence with any line of the prediction has a word, as often as the prediction has it.
// - precision = matches / those of the prediction; recall = matches / those of the target; f = 2PR / (P + R). 0 / 0
//   is 0.
//
// Source: Lin 2004, ROUGE: A Package for Automatic Evaluation of Summaries; rouge_score/rouge_scorer.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/base/span.h"

namespace bascule {

struct RougeScore {
  double precision = 0.0, recall = 0.0, f = 0.0;  // 0 .. 1
};

struct RougeScores {
  RougeScore rouge1, rouge2, rougeL, rougeLsum;
};

// The limits of one text. It is cut there: bytes beyond the limit are not read (a word that they end becomes shorter),
// words beyond it are not counted.
struct RougeLimits {
  std::size_t bytes = 0;  // below 2^31
  std::size_t words = 0;
};

class Rouge : NonCopyable {
 public:
  // The most words that so many bytes of text can have.
  static constexpr std::size_t most_words(std::size_t bytes) noexcept { return bytes / 2 + bytes % 2; }

  explicit Rouge(const RougeLimits& limits) noexcept;

  // For W words: W² / 8 bytes, some 100 W more, and two for each byte of a text.
  std::size_t bytes() const noexcept { return bytes_; }
  // memory: bytes(), 64-byte aligned; it must outlive this.
  void seal(std::byte* memory) noexcept;

  // Whether a text has a word that is counted.
  static bool has_words(std::string_view text) noexcept;

  // After seal(). By one thread at a time. Time grows with words of the target times words of the prediction.
  RougeScores score(std::string_view target, std::string_view prediction) noexcept;

 private:
  using WordNumbers = Span<const std::uint32_t>;
  struct KnownWord {
    std::uint32_t begin, length;  // in letters_
  };
  struct Text {
    std::uint32_t* words = nullptr;      // their numbers, in the order of the text
    std::uint32_t* sentences = nullptr;  // the first word of each line that has one; behind the last: word_count
    std::uint64_t* ngrams = nullptr;
    std::size_t word_count = 0;
    std::size_t sentence_count = 0;

    WordNumbers all_words() const noexcept { return {words, word_count}; }
    WordNumbers sentence(std::size_t i) const noexcept {
      return {words + sentences[i], sentences[i + 1] - sentences[i]};
    }
  };

  // Gives every array its place; returns the bytes of all. Without memory it only counts.
  std::size_t place_arrays(std::byte* memory) noexcept;
  void read(std::string_view bytes, Text* text) noexcept;
  // The number of the word whose letters follow those of the known words. The same word has the same number.
  std::uint32_t number_of_word(std::size_t length) noexcept;
  RougeScore score_ngrams(std::size_t n) noexcept;
  // The length of the longest common subsequence. goes_left: where not null, sets a bit for every pair of words, by
  // rows of the target: on the way back through the table the step goes to the word before in the prediction.
  std::size_t longest_common(WordNumbers target, WordNumbers prediction, std::uint64_t* goes_left) noexcept;
  void mark_common(WordNumbers target, WordNumbers prediction) noexcept;
  std::size_t union_matches() noexcept;

  RougeLimits limits_;
  std::size_t table_size_;  // a power of two, at least twice the words of both texts
  std::size_t bytes_ = 0;

  Text target_, prediction_;
  char* letters_ = nullptr;             // of the known words, one after another
  KnownWord* known_ = nullptr;          // the words of both texts, by number
  std::uint32_t* table_ = nullptr;      // numbers of words at the places of their hashes
  std::uint32_t* unmatched_ = nullptr;  // by number: how often the prediction has a word that is not matched yet
  std::uint32_t* lengths_ = nullptr;    // a row of the table of longest common subsequences
  std::uint64_t* goes_left_ = nullptr;
  bool* is_common_ = nullptr;  // by word of a target's sentence
  std::size_t known_count_ = 0, letter_count_ = 0;
};

// Porter's stemmer of English words, with the changes that NLTK makes by default: PorterStemmer of nltk 3.10 in its
// mode NLTK_EXTENSIONS. Snowball's "porter" and Porter's own program give other stems.

// Writes the stem of a word over it and returns its length: 1 .. length, or 0 for no letters. The word is made of a-z
// and 0-9; digits count as consonants. Takes time in proportion to the length, which has no limit. Allocates nothing.
//
// Source: Porter 1980, An algorithm for suffix stripping; nltk/stem/porter.py.
std::size_t porter_stem(char* word, std::size_t length) noexcept;

}  // namespace bascule
