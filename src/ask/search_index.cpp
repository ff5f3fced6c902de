// SPDX-License-Identifier: Apache-2.0
#include "src/ask/search_index.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <string_view>

#include "src/base/check.h"
#include "src/base/count_of.h"
#include "src/base/error.h"
#include "src/checkpoint/safetensors.h"
#include "src/json/json.h"

namespace bascule {
namespace {

using Metadata = std::map<std::string, std::string>;

constexpr const char* kHowToMake =
    "a run of the contrastive head with a validation or test file and do_predict = true writes it";

std::vector<std::string> names_of(const Metadata& metadata, const std::string& key, const std::string& path) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) throw Error(ErrorKind::kData, path, "no \"" + key + "\" in its metadata", kHowToMake);
  const Json names = parse_json(found->second, path + ": " + key);
  if (!names.is_array()) throw Error(ErrorKind::kData, path, "\"" + key + "\" is not an array");
  std::vector<std::string> result;
  for (const Json& name : names) {
    if (!name.is_string())
      throw Error(ErrorKind::kData, path, "\"" + key + "\" holds " + json_text(name) + ", which is not a string");
    result.push_back(name.string());
  }
  return result;
}

std::vector<float> embeds_of(const TensorSource& source, const std::string& name, std::int64_t rows, std::int64_t width,
                             const std::string& path) {
  const StoredTensor* tensor = source.find(name);
  if (tensor == nullptr) throw Error(ErrorKind::kData, path, "no tensor \"" + name + "\"", kHowToMake);
  const std::vector<std::int64_t> shape = {rows, width};
  if (tensor->shape != shape) {
    throw Error(ErrorKind::kData, path, name + " is " + shape_text(tensor->shape) + ", not " + shape_text(shape),
                "file and model belong to different runs: run again");
  }
  std::vector<float> values(static_cast<std::size_t>(rows * width));
  source.read_float32(values.data(), *tensor, 0, rows * width);
  refuse_not_finite(values, width, path + ": " + name);
  return values;
}

}  // namespace

SearchIndex read_search_index(const std::string& folder, std::int64_t width) {
  const std::string path = folder + "/embeddings.safetensors";
  if (!std::filesystem::exists(path)) {
    throw Error(ErrorKind::kData, folder,
                "has no embeddings.safetensors: it is not a finished run of the contrastive head",
                std::string(kHowToMake) + "; or search other pictures with --images DIR");
  }
  const Metadata metadata = read_safetensors_header(InputFile(path)).metadata;
  SearchIndex index;
  index.paths = names_of(metadata, "paths", path);
  index.captions = names_of(metadata, "captions", path);
  if (index.paths.size() != index.captions.size()) {
    throw Error(ErrorKind::kData, path,
                count_of(index.paths.size(), "path") + " but " + count_of(index.captions.size(), "caption"));
  }
  const auto split = metadata.find("split");
  index.split = split == metadata.end() ? "embeddings.safetensors" : split->second;
  const TensorSource source = open_safetensors(path);
  const std::int64_t rows = static_cast<std::int64_t>(index.paths.size());
  index.image_embeds = embeds_of(source, "image_embeds", rows, width, path);
  index.text_embeds = embeds_of(source, "text_embeds", rows, width, path);
  return index;
}

std::vector<Neighbour> nearest_names(const std::vector<float>& query, const std::vector<float>& embeds,
                                     const std::vector<std::string>& names, std::size_t top, std::size_t* candidates) {
  BASCULE_CHECK(embeds.size() == names.size() * query.size());
  std::vector<std::int64_t> rows(names.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<Neighbour> ranked = nearest(query, embeds.data(), rows);
  std::set<std::string_view> seen;
  const auto is_repeated = [&](const Neighbour& one) {
    return !seen.insert(names[static_cast<std::size_t>(one.row)]).second;
  };
  ranked.erase(std::remove_if(ranked.begin(), ranked.end(), is_repeated), ranked.end());
  *candidates = ranked.size();
  ranked.resize(std::min(ranked.size(), top));
  return ranked;
}

void refuse_not_finite(Span<const float> embeds, std::int64_t width, const std::string& where) {
  const float* const found =
      std::find_if(embeds.begin(), embeds.end(), [](float value) { return !std::isfinite(value); });
  if (found == embeds.end()) return;
  throw Error(ErrorKind::kData, where,
              "row " + std::to_string((found - embeds.begin()) / width) + " holds " + std::to_string(*found) +
                  ": the model diverged",
              "train it again, with a lower learning rate");
}

}  // namespace bascule
