// SPDX-License-Identifier: Apache-2.0
// `bascule draw FOLDER "prompt"`: one picture.
#pragma once

#include <cstdint>
#include <string>

#include "src/settings/settings.h"

namespace bascule {

struct DrawArguments {
  std::string folder;                  // of a pipeline
  std::string output = "picture.png";  // the file to write, not in `folder`
  std::uint64_t seed = 42;
  std::int64_t noise = 0;             // its number under the seed
  DrawSettings draw;                  // with one prompt
  std::string precision = "float32";  // or "bf16"
  bool json = false;
};

// Writes the picture, and says so. Returns the exit code, 0, or 128 + the number of a signal that came. Throws Error:
// kSettings for the arguments, kData for the folder, kMemory, kDisk.
int draw_command(const DrawArguments& arguments, const volatile int* stop);

}  // namespace bascule
