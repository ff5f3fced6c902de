// SPDX-License-Identifier: Apache-2.0
#include "src/train/predictions.h"

#include <cmath>

#include "src/base/temporary_name.h"
#include "src/checkpoint/durable_write.h"
#include "src/json/json_stream.h"

namespace bascule {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;  // written at a time

void add_match(JsonStream& out, float score, std::int32_t label) {
  out.key("matched").boolean(label == 1);
  out.key("predicted").boolean(score > 0.0f);
  out.key("probability").number(1.0 / (1.0 + std::exp(-static_cast<double>(score))));
}

void add_token(JsonStream& out, const char* name, std::int32_t id, const std::vector<std::string>& tokens) {
  const std::size_t at = static_cast<std::size_t>(id);
  out.key(name);
  if (at < tokens.size() && !tokens[at].empty()) {
    out.string(tokens[at]);
  } else {
    out.null();
  }
}

void add_tokens(JsonStream& out, Span<const TokenPrediction> predictions, const std::vector<std::string>& tokens) {
  out.key("tokens").begin_array();
  for (const TokenPrediction& token : predictions) {
    out.begin_object();
    out.key("position").integer(token.position);
    add_token(out, "expected", token.expected, tokens);
    add_token(out, "predicted", token.predicted, tokens);
    out.key("probability").number(static_cast<double>(token.probability));
    out.end_object();
  }
  out.end_array();
}

}  // namespace

std::int64_t predictions_bytes(const Evaluation::Shape& shape, const Manifest& manifest) {
  constexpr std::int64_t kRowBytes = 160, kTokenBytes = 100;
  return 2 * static_cast<std::int64_t>(manifest.resident_bytes()) +
         shape.predicted_rows * (kRowBytes + shape.tokens * kTokenBytes);
}

std::string prediction_line(ModelHead head, const JudgedSplit& judged, std::int64_t place, const Manifest& manifest,
                            const std::vector<std::string>& tokens) {
  const bool matching = head == ModelHead::kImageTextMatching;
  const std::size_t at = static_cast<std::size_t>(place);
  const std::int64_t row = judged.rows()[at];
  const std::string_view image = manifest.row(row).image_path,
                         caption = manifest.row(matching ? judged.caption_row(row) : row).caption;
  for (std::string buffer(4096 + 2 * (image.size() + caption.size()), '\0');; buffer.resize(2 * buffer.size())) {
    JsonStream out(Span<char>(buffer.data(), buffer.size()));
    out.begin_object();
    out.key("row").integer(row).key("image").string(image).key("caption").string(caption);
    if (matching) {
      add_match(out, judged.scores()[at], judged.labels()[at]);
    } else {
      add_tokens(out, judged.tokens(row), tokens);
    }
    out.end_object();
    if (!out.overflowed()) return std::string(out.text()) + "\n";
  }
}

void write_predictions(const std::string& folder, ModelHead head, const JudgedSplit& judged, const Manifest& manifest,
                       const std::vector<std::string>& tokens) {
  const std::string path = folder + "/" + kPredictionsFile;
  OutputFile file;
  throw_if_failed(file.create((folder + "/" + kTemporaryPrefix + kPredictionsFile).c_str()), path, "creating");
  const std::int64_t rows = static_cast<std::int64_t>(judged.rows().size());
  std::string block;
  for (std::int64_t place = 0; place < rows; ++place) {
    block += prediction_line(head, judged, place, manifest, tokens);
    if (block.size() < kBlockBytes && place + 1 < rows) continue;
    throw_if_failed(file.write(block.data(), block.size()), path, "writing");
    block.clear();
  }
  throw_if_failed(file.sync_and_close(), path, "syncing");
  throw_if_failed(publish_file(folder.c_str(), kPredictionsFile), path, "renaming");
}

}  // namespace bascule
