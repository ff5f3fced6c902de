// SPDX-License-Identifier: Apache-2.0
#include "src/judge/predictions.h"

#include "src/files/durable_write.h"

namespace bascule {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;  // written at a time

// One line, with its line break.
std::string line_of(std::int64_t place, std::int64_t row, std::int64_t caption_row, const Manifest& manifest,
                    const AddPrediction& add, const TextKeys& keys) {
  const std::string_view image = manifest.row(row).image_path;
  const ManifestRow texts = manifest.row(caption_row);
  const bool has_texts = manifest.longest_text_bytes() > 0;
  for (std::string buffer(4096 + 2 * (image.size() + texts.text.size()), '\0');; buffer.resize(2 * buffer.size())) {
    JsonStream out(Span<char>(buffer.data(), buffer.size()));
    out.begin_object();
    out.key("row").integer(row);
    if (image.empty() && !has_texts) out.key("begins").string(manifest.where(row));  // of a text corpus
    if (!image.empty()) out.key("image").string(image);
    if (has_texts && keys.first != nullptr) out.key(keys.first).string(texts.text);
    if (texts.second_text && keys.second != nullptr) out.key(keys.second).string(*texts.second_text);
    add(out, place, row);
    out.end_object();
    if (!out.overflowed()) return std::string(out.text()) + "\n";
  }
}

}  // namespace

std::int64_t predictions_bytes(std::int64_t of_manifest, std::int64_t rows, std::int64_t judgement_bytes) {
  constexpr std::int64_t kRowBytes = 160;
  return 2 * of_manifest + rows * (kRowBytes + judgement_bytes);
}

void write_predictions(const JudgedFiles& files, Span<const std::int32_t> rows, const std::int32_t* caption_rows,
                       const AddPrediction& add, const TextKeys& keys) {
  const std::string path = files.folder + "/" + kPredictionsFile;
  OutputFile file;
  throw_if_failed(file.create((files.folder + "/" + kTemporaryPrefix + kPredictionsFile).c_str()), path, "creating");
  std::string block;
  for (std::size_t place = 0; place < rows.size(); ++place) {
    const std::int64_t row = rows[place];
    block += line_of(static_cast<std::int64_t>(place), row, caption_rows == nullptr ? row : caption_rows[row],
                     files.manifest, add, keys);
    if (block.size() < kBlockBytes && place + 1 < rows.size()) continue;
    throw_if_failed(file.write(block.data(), block.size()), path, "writing");
    block.clear();
  }
  throw_if_failed(file.sync_and_close(), path, "syncing");
  throw_if_failed(publish_file(files.folder.c_str(), kPredictionsFile), path, "renaming");
}

}  // namespace bascule
