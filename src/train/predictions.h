// SPDX-License-Identifier: Apache-2.0
// predictions.jsonl: what a matching or masked LM head says of the test file, one JSON object a row that was judged, in
// the order of the rows.
//
//   both       row (its number in the file, from 0), image (as the file has it), caption (that the model saw)
//   matching   matched (whether it is the picture's), predicted, probability (of a match)
//   masked LM  tokens: for each labelled token its position among the caption's tokens (<s> has 0), the token expected,
//              the one predicted, and the probability of the expected one. Tokens are written as the tokenizer's files
//              write them; null: the model knows more tokens than the tokenizer
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/index/manifest.h"
#include "src/models/bridgetower.h"
#include "src/train/evaluate.h"

namespace bascule {

inline constexpr char kPredictionsFile[] = "predictions.jsonl";

// Bytes of the file, about: for the check of the disk.
std::int64_t predictions_bytes(const Evaluation::Shape& shape, const Manifest& manifest);

// One line, with its line break. place: among the rows judged; tokens: by id.
std::string prediction_line(ModelHead head, const JudgedSplit& judged, std::int64_t place, const Manifest& manifest,
                            const std::vector<std::string>& tokens);

// Into `folder`, whole or not at all. Of the split that was judged last, with predictions kept. After the door has
// opened; throws Error.
void write_predictions(const std::string& folder, ModelHead head, const JudgedSplit& judged, const Manifest& manifest,
                       const std::vector<std::string>& tokens);

}  // namespace bascule
