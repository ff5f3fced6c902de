// SPDX-License-Identifier: Apache-2.0
// The rows that judges write out: examples in report.html, and predictions.jsonl.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "src/answer/report.h"
#include "src/base/span.h"
#include "src/index/manifest.h"
#include "src/index/picture_folder.h"
#include "src/json/json_stream.h"
#include "src/judge/judge.h"
#include "src/judge/statistics.h"

namespace bascule {

// Examples for report.html: which rows are shown, and their pictures. Finish phase.

// `count` of all, evenly spaced; all, if there are fewer.
std::vector<std::int64_t> evenly_spaced(const std::vector<std::int64_t>& all, std::int64_t count);

// Puts pictures into the report, each once.
class PictureShelf {
 public:
  PictureShelf(Report* report, const Manifest& manifest) : report_(report), manifest_(manifest), folder_(manifest) {}
  // The place of the row's picture in Report::pictures. Its file is empty where it cannot be read any more.
  std::size_t add(std::int64_t row);

 private:
  Report* report_;
  const Manifest& manifest_;
  PictureFolder folder_;
  std::map<std::int64_t, std::size_t> index_;
};

// A classifier's rows for report.html: the accuracy of each class, the most frequent confusions, and pictures, or the
// texts that it was surest of and wrong. Finish phase.

struct JudgedClasses {
  Span<const std::int32_t> rows;          // the manifest rows that were judged
  const std::int32_t* labels = nullptr;   // by manifest row
  const ClassPrediction* best = nullptr;  // by manifest row, best first
  std::int64_t stride = 0;                // of `best`
  std::int64_t shown = 0;                 // how many of them there are
};

// names: of the classes, by number; empty: they are called by their numbers.
void add_class_examples(Report* report, const JudgedClasses& judged, const Manifest& manifest,
                        const std::vector<std::string>& names);

// Examples for report.html: captions with the pictures that the model finds for them, and the other way round; and
// the map of the embeddings. Finish phase.

// The embeddings of the judged rows.
struct RowEmbeddings {
  Span<const std::int32_t> rows;                  // the manifest row that each of them is
  const float *text = nullptr, *image = nullptr;  // (rows, width)
  std::int64_t width = 0;
};

// Eight evenly spaced captions, each with the five distinct pictures that are nearest, and eight evenly spaced distinct
// pictures, each with the five nearest captions.
void add_retrieval_examples(Report* report, const RowEmbeddings& embeddings, const Manifest& manifest);

// Report::map, without thumbnails.
void add_embedding_map(Report* report, const RowEmbeddings& embeddings, const Manifest& manifest);

// Sentences with masked tokens for report.html: while the predicted split is judged, the tokens of a few evenly spaced
// rows are kept, with the best predictions for those that are masked.

inline constexpr std::int64_t kSentenceExamples = 8, kTokenGuesses = 5;

// A masked token, and the tokens that the model holds most probable, best first.
struct TokenGuesses {
  std::int32_t position = 0;  // among the text's tokens, the special one before them at 0
  std::int32_t expected = 0;
  float probability = 0.0f;  // of the expected one
  std::int32_t ids[kTokenGuesses] = {};
  float probabilities[kTokenGuesses] = {};
};

// Which example a row of a split is; -1: none.
inline std::int64_t example_of_row(std::int64_t row, std::int64_t rows) {
  const std::int64_t shown = rows < kSentenceExamples ? rows : kSentenceExamples;
  for (std::int64_t i = 0; i < shown; ++i) {
    if (i * rows / shown == row) return i;
  }
  return -1;
}

// One kept row.
struct KeptSentence {
  const std::int32_t* ids = nullptr;  // as the model saw them
  std::int64_t tokens = 0;
  const TokenGuesses* masked = nullptr;
  std::int64_t masked_tokens = 0;
  std::int64_t guesses = 0;  // for each of them
};

// names: of the tokens by id; a token without a name is shown by its number.
SentenceExample sentence_example(const KeptSentence& kept, const std::vector<std::string>& names);

// predictions.jsonl: what a model says of the test file, one JSON object a row that was judged, in the order of the
// rows: row (its number in the file, from 0), image (as the file has it), caption (that the model saw), then what the
// judge has to say of it. A sample of a text corpus has "begins" in place of image and caption: its file and line.

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
