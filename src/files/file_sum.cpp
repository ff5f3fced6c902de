// SPDX-License-Identifier: Apache-2.0
#include "src/files/file_sum.h"

#include <algorithm>
#include <vector>

#include "src/base/sha256.h"
#include "src/files/input_file.h"

namespace bascule {

std::string sha256_of_file(const std::string& path) {
  const InputFile file(path);
  std::vector<char> block(std::size_t{1} << 20);
  Sha256 sum;
  for (std::int64_t done = 0; done < file.size();) {
    const auto part = std::min<std::int64_t>(file.size() - done, static_cast<std::int64_t>(block.size()));
    file.read(block.data(), done, static_cast<std::size_t>(part));
    sum.add(block.data(), static_cast<std::size_t>(part));
    done += part;
  }
  return sum.hex();
}

}  // namespace bascule
