// SPDX-License-Identifier: Apache-2.0
// Samples that stand in for bad ones.
#pragma once

#include <cstdint>

namespace bascule {

// The sample at `position` of epoch `epoch` is bad; `row` was taken in its place.
struct ReplacedSample {
  std::int64_t epoch = 0;
  std::int64_t position = 0;
  std::int64_t row = 0;
};

}  // namespace bascule
