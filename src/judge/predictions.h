// SPDX-License-Identifier: Apache-2.0
// predictions.jsonl: what a model says of the test file, one JSON object a row that was judged, in the order of the
// rows: row (its number in the file, from 0), image (as the file has it), caption (that the model saw), then what the
// judge has to say of it. A sample of a text corpus has "begins" in place of image and caption: its file and line.
#pragma once

#include <cstdint>
#include <functional>

#include "src/base/span.h"
#include "src/json/json_stream.h"
#include "src/judge/judge.h"

namespace bascule {

inline constexpr char kPredictionsFile[] = "predictions.jsonl";
inline constexpr char kGeneratedTextsFile[] = "generated_predictions.txt";  // one on each line

// Bytes of the file, about: for the check of the disk. judgement_bytes: of what the judge says of a row.
std::int64_t predictions_bytes(std::int64_t of_manifest, std::int64_t rows, std::int64_t judgement_bytes);

// Adds the keys of one row. place: among the rows judged.
using AddPrediction = std::function<void(JsonStream& out, std::int64_t place, std::int64_t row)>;

// The keys of a row's texts.
struct TextKeys {
  const char* first = "caption";  // null: the judge says the text
  const char* second = "second_caption";
};

// Into files.folder, whole or not at all. caption_rows: by row, the row of its caption; null: its own. Throws Error.
void write_predictions(const JudgedFiles& files, Span<const std::int32_t> rows, const std::int32_t* caption_rows,
                       const AddPrediction& add, const TextKeys& keys = {});

}  // namespace bascule
