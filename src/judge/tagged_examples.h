// SPDX-License-Identifier: Apache-2.0
// Rows of words with predicted tags for people: lines of predictions.jsonl, and the figures of each type and the rows
// with the most mistakes for report.html. Finish phase.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/span.h"
#include "src/json/json_stream.h"
#include "src/judge/entities.h"
#include "src/judge/judge.h"

namespace bascule {

// A token that has a label.
struct TokenTag {
  std::int32_t word = 0;  // its number in the row
  std::int32_t label = 0, predicted = 0;
  float probability = 0.0f;  // of the predicted one
};

struct TaggedRow {
  std::int64_t row = 0;
  const JudgedFiles& files;
  Span<const TokenTag> tokens;  // in order
};

// Adds the keys "words", "tags", "predicted" and "probability", lists of as many elements. The prediction of a word is
// that of its first token; null for a word that has none, or was cut off.
void add_tagged_row(JsonStream& out, const TaggedRow& row);

// rows: of the predicted split, in order.
void add_tagged_examples(Report* report, const std::vector<TaggedRow>& rows, const EntityTags& tags);

}  // namespace bascule
