// SPDX-License-Identifier: Apache-2.0
// Shared by the fuzz targets: the bytes as text, and as a file for readers that open one.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace bascule::fuzz {

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {static_cast<const char*>(static_cast<const void*>(data)), size};
}

// Writes the bytes over `<a folder of this process>/input<suffix>` and returns its path.
inline std::string as_file(const std::uint8_t* data, std::size_t size, const std::string& suffix) {
  static const std::string folder = [] {
    char pattern[] = "/tmp/bascule_fuzz.XXXXXX";
    return std::string(mkdtemp(pattern));
  }();
  const std::string path = folder + "/input" + suffix;
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr || std::fwrite(data, 1, size, file) != size || std::fclose(file) != 0) std::abort();
  return path;
}

// A broken promise is a crash, which is what a fuzzer looks for.
inline void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace bascule::fuzz
