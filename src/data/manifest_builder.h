// SPDX-License-Identifier: Apache-2.0
// Where the readers of every kind of manifest put their rows: checks them, gives equal pictures one id, packs the
// index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/data/manifest.h"

namespace bascule {

class ManifestBuilder {
 public:
  // file: as messages name it. folder: where relative picture paths start.
  ManifestBuilder(std::string file, std::string folder);

  // label: 0 or 1, or -1 in every row where there are none. Throws Error (kData) naming the line.
  void add(std::string_view image_path, std::string_view caption, int label, std::int64_t line);
  // Throws Error (kData) if there are no rows. The builder is used up.
  Manifest finish(std::uint64_t digest);

 private:
  std::uint32_t image_id(std::string_view path);
  void grow_slots();

  Manifest manifest_;
  std::vector<std::uint32_t> slots_;  // hash table of image ids, open addressing; kFree where empty
};

}  // namespace bascule
