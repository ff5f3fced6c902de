// SPDX-License-Identifier: Apache-2.0
#include "src/index/picture_digest.h"

#include "src/base/digest.h"

namespace bascule {

std::uint64_t picture_digest(const void* file, std::size_t bytes) noexcept {
  const std::uint64_t digest = digest_of(file, bytes);
  return digest != 0 ? digest : 1;
}

}  // namespace bascule
