// SPDX-License-Identifier: Apache-2.0
// Texts of the splits, counted by their tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/span.h"
#include "src/doctor/data.h"
#include "src/doctor/equal_rows.h"
#include "src/doctor/finding.h"
#include "src/text/tokenizer.h"

namespace bascule {

// Lengths of texts in at most a dozen bars.

struct LengthBar {
  std::int64_t from = 0, to = 0;    // tokens, both included
  std::int64_t texts = 0, cut = 0;  // cut: those of them that are
};

// Bars of equal width (1, 2 or 5 times a power of ten) from the shortest text to the longest that has a count of its
// own; the last also has all longer ones.
std::vector<LengthBar> length_bars(const TextFigures& figures);

// Counts texts by their tokens. Where a text is longer than may be, the digest is that of the tokens that are left.

// The greatest length with a count of its own.
inline constexpr std::int64_t kLongestCounted = 65536;

class TextCounter {
 public:
  // special: the special tokens of a text.
  TextCounter(const Tokenizer& tokenizer, std::int64_t special, TextFigures* figures)
      : unknown_id_(tokenizer.unknown_id()), special_(special), figures_(*figures) {}

  struct Text {
    std::int64_t unknown = 0;
    bool is_cut = false, is_empty = false, is_all_unknown = false;
  };
  // ids: all of a text's tokens, special ones too. is_blank: it has nothing but spaces, which may be tokens.
  Text add(Span<const std::int32_t> ids, bool is_blank = false);

 private:
  std::int32_t unknown_id_;
  std::int64_t special_;
  TextFigures& figures_;
};

// Reads the texts of a split as a run does, but for their cut, and counts tokens. Before the seal. Memory: 8 bytes for
// each text.

// A text worth showing: the row, and a number to say.
struct NotedText {
  std::int64_t row = 0;
  std::int64_t tokens = 0;  // of the text
};

// The texts of one kind of a split: number 0, or 1 of a second text of its own. place: of a row's texts, where each is
// a text by itself; else kAllTexts.
struct SplitTexts {
  std::size_t split = 0;
  int number = 0, place = -1;
  TextFigures figures;
  RowDigests digests;  // of the tokens that the model reads, by row, of a corpus by sentence; empty texts: kNoContent
  std::vector<NotedText> cut, empty, unknown;  // the first of each; unknown: the worst
  std::size_t most = kMostExamples;            // of each
};

// Reads the texts of all splits and kinds, in order. Throws Error kData for a text that cannot be tokenised.
std::vector<SplitTexts> read_texts(const OpenedData& opened);

// Where the text is and what it says, shortened: "train.jsonl:17: \"a cat\"".
std::string shown_text(const OpenedData& opened, const SplitTexts& texts, std::int64_t row);

// Appends the findings about them.
void find_in_texts(const OpenedData& opened, const std::vector<SplitTexts>& texts, std::vector<Finding>* findings);

// The same of rows whose texts are embedded each by itself.
void find_in_rows_of_texts(const OpenedData& opened, std::vector<Finding>* findings);

}  // namespace bascule
