// SPDX-License-Identifier: Apache-2.0
#include "src/train/preprocessor.h"

#include <filesystem>

#include "src/base/error.h"
#include "src/json/json.h"

namespace bascule {
namespace {

void read_three(const Json& object, const char* key, const std::string& path, double* out) {
  if (find_member(object, key, path) == nullptr) return;
  const std::vector<double> values = get_numbers(object, key, path);
  if (values.size() != 3)
    throw Error(ErrorKind::kData, path, std::string(key) + " has " + std::to_string(values.size()) + " numbers",
                "3 are needed");
  for (std::size_t i = 0; i < 3; ++i) out[i] = values[i];
}

}  // namespace

PictureStatistics read_picture_statistics(const std::string& folder) {
  PictureStatistics statistics;
  for (const char* name : {"/preprocessor_config.json", "/processor_config.json"}) {
    const std::string path = folder + name;
    if (!std::filesystem::exists(path)) continue;
    const Json json = read_json_file(path);
    const Json* nested = find_member(json, "image_processor", path);
    const Json& object = nested != nullptr ? *nested : json;
    read_three(object, "image_mean", path, statistics.mean);
    read_three(object, "image_std", path, statistics.std);
    for (const double s : statistics.std) {
      if (!(s > 0.0)) throw Error(ErrorKind::kData, path, "image_std holds a number that is not positive");
    }
    return statistics;
  }
  return statistics;
}

}  // namespace bascule
