// SPDX-License-Identifier: Apache-2.0
// Who follows a generation, which may take minutes.
#pragma once

#include <cstdint>

namespace bascule {

class DecodingWatch {
 public:
  virtual ~DecodingWatch() = default;
  // After each token of so many rows; ended: samples of the batch that are done. Returns 0, or the number of a signal
  // for which decoding ends at once. Sealed.
  virtual int decoded(std::int64_t rows, std::int64_t ended) noexcept = 0;
};

}  // namespace bascule
