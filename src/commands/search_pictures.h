// SPDX-License-Identifier: Apache-2.0
// Picture files that are found, read and decoded one at a time, outside a loader. Not for the sealed phase: allocates,
// throws Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "src/data/media.h"
#include "src/settings/settings.h"

namespace bascule {

// Named *.jpg or *.jpeg, in any case of letters.
bool has_picture_name(const std::string& path);

// All such files below a folder, by path. Links to folders are not followed. Throws Error kData if there is none.
std::vector<std::string> find_pictures(const std::string& folder);

// Throws Error kData.
std::vector<std::uint8_t> read_picture_file(const std::string& path);

class PictureDecoder {
 public:
  // Pictures with this folder's mean and std.
  PictureDecoder(const std::string& model_folder, Preprocessing preprocessing, std::int64_t image_side);

  // (3, side, side) normalised floats. Returns an empty text, or why the picture is refused. Throws Error kData if the
  // device is bad.
  std::string decode(const std::string& path, float* pixels);

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;  // the engine's: released after it
  std::unique_ptr<Media> media_;
};

}  // namespace bascule
