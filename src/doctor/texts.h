// SPDX-License-Identifier: Apache-2.0
// Reads the texts of a split as a run does, but for their cut, and counts tokens. Before the seal. Memory: 8 bytes for
// each text.
#pragma once

#include <cstdint>
#include <vector>

#include "src/doctor/data.h"
#include "src/doctor/equal_rows.h"

namespace bascule {

// A text worth showing: the row, and a number to say.
struct NotedText {
  std::int64_t row = 0;
  std::int64_t tokens = 0;  // of the text
};

// The texts of one kind of a split: number 0, or 1 of a second text of its own.
struct SplitTexts {
  std::size_t split = 0;
  int number = 0;
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

}  // namespace bascule
