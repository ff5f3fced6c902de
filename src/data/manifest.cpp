// SPDX-License-Identifier: Apache-2.0
#include "src/data/manifest.h"

#include <sys/stat.h>
#include <xxhash.h>

#include <filesystem>
#include <memory>

#include "src/base/check.h"
#include "src/base/error.h"
#include "src/data/manifest_builder.h"
#include "src/data/manifest_readers.h"

namespace bascule {
namespace {

struct FreeHash {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

// A folder with metadata.jsonl names its column of pictures "file_name" by Hugging Face's rule; the default name of
// other manifests cannot be meant there.
ManifestColumns folder_columns(ManifestColumns columns) {
  if (columns.image == ManifestColumns().image) columns.image = "file_name";
  return columns;
}

}  // namespace

Error missing_column(const std::string& where, const std::string& column, const std::string& setting) {
  return Error{ErrorKind::kData, where, "no column \"" + column + "\"", "name it with data." + setting};
}

Manifest Manifest::load(const std::string& path, const ManifestColumns& columns) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    const std::string file = path + "/metadata.jsonl";
    ManifestBuilder builder(file, path);
    return builder.finish(read_json_lines(file, folder_columns(columns), &builder));
  }
  const std::string folder = fs::path(path).parent_path().string();
  const std::string ending = fs::path(path).extension().string();
  ManifestBuilder builder(path, folder.empty() ? "." : folder);
  if (ending == ".jsonl") return builder.finish(read_json_lines(path, columns, &builder));
  if (ending == ".json") return builder.finish(read_json_array(path, columns, &builder));
  if (ending == ".csv") return builder.finish(read_separated(path, ',', columns, &builder));
  if (ending == ".tsv") return builder.finish(read_separated(path, '\t', columns, &builder));
  throw Error{ErrorKind::kData, path, "a manifest of an unknown kind",
              "use .jsonl, .json, .csv, .tsv or a folder with metadata.jsonl"};
}

ManifestRow Manifest::row(std::int64_t row) const noexcept {
  BASCULE_DCHECK(row >= 0 && row < rows());
  const std::size_t i = static_cast<std::size_t>(row);
  const std::size_t begin = i == 0 ? 0 : caption_end_[i - 1];
  ManifestRow result;
  result.image_id = image_of_row_[i];
  result.image_path = image_path(result.image_id);
  result.caption = std::string_view(captions_.data() + begin, caption_end_[i] - begin);
  if (has_labels()) result.label = labels_[i];
  return result;
}

std::int64_t Manifest::image_id(std::int64_t row) const noexcept {
  BASCULE_DCHECK(row >= 0 && row < rows());
  return image_of_row_[static_cast<std::size_t>(row)];
}

std::string_view Manifest::image_path(std::int64_t image_id) const noexcept {
  BASCULE_DCHECK(image_id >= 0 && image_id < pictures());
  const std::size_t i = static_cast<std::size_t>(image_id);
  return std::string_view(paths_.data() + path_begin_[i], path_begin_[i + 1] - path_begin_[i] - 1);
}

std::string Manifest::where(std::int64_t row) const {
  BASCULE_DCHECK(row >= 0 && row < rows());
  return file_ + ":" + std::to_string(line_[static_cast<std::size_t>(row)]);
}

std::uint64_t Manifest::data_digest() const {
  const std::unique_ptr<XXH3_state_t, FreeHash> hash(XXH3_createState());
  XXH3_64bits_reset(hash.get());
  XXH3_64bits_update(hash.get(), &digest_, sizeof(digest_));
  std::string file;
  for (std::int64_t id = 0; id < pictures(); ++id) {
    const std::string_view path = image_path(id);
    file.assign(path[0] == '/' ? "" : folder_ + "/");
    file.append(path);
    struct stat facts = {};
    const std::uint64_t size =
        ::stat(file.c_str(), &facts) == 0 ? static_cast<std::uint64_t>(facts.st_size) : ~std::uint64_t{0};
    XXH3_64bits_update(hash.get(), &size, sizeof(size));
  }
  return XXH3_64bits_digest(hash.get());
}

}  // namespace bascule
