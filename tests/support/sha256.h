// SPDX-License-Identifier: Apache-2.0
// SHA-256 of some bytes as lower-case hexadecimal: reference pictures are recorded by their digest.
#pragma once

#include "src/base/digest.h"

namespace bascule::test {

inline std::string sha256_hex(const void* data, std::size_t size) {
  Sha256 sum;
  sum.add(data, size);
  return sum.hex();
}

}  // namespace bascule::test
