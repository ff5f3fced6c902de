// SPDX-License-Identifier: Apache-2.0
// A row of A that a product packs, put together of runs of numbers.
#pragma once

#include <cstdint>

#include "kernels/simd/multiply_tile.h"

namespace bascule::BASCULE_ISA {
namespace {

// `count` numbers from column `done` on, or zeros where x is null. Whole vectors are written: up to 15 numbers past
// them are overwritten.
inline void put_run(float* row, ConstElements x, std::int64_t done, std::int64_t count) {
  if (x) return pack_rows(row + done, 0, x.float32(), 0, 1, count);
  for (std::int64_t c = 0; c < count; c += kLanes) store(row + done + c, set(0.0f));
}
inline void put_run(std::uint16_t* row, ConstElements x, std::int64_t done, std::int64_t count) {
  if (!x) {
    for (std::int64_t c = 0; c < count; c += kLanes) store_bf16(row + done + c, set(0.0f));
  } else if (x.is_bf16()) {
    __builtin_memcpy(row + done, x.bf16(), static_cast<std::size_t>(count) * sizeof *row);
  } else {
    (void)as_bf16(x, count, row + done);
  }
}

// Runs are put one behind another, the first at column 0. Where they are not steps yet, pack() makes them steps.
template <typename Steps, bool kIsFloat32 = !Steps::kPairs>
class Gathered {
 public:
  explicit Gathered(float* packed) : packed_(packed) {}
  void put(ConstElements x, std::int64_t done, std::int64_t count) { put_run(packed_, x, done, count); }
  void pack(std::int64_t) {}

 private:
  float* packed_;
};
template <typename Steps>
class Gathered<Steps, false> {
 public:
  explicit Gathered(float* packed) : packed_(packed) {}
  void put(ConstElements x, std::int64_t done, std::int64_t count) { put_run(row_, x, done, count); }
  void pack(std::int64_t cols) { pack_row_steps<Steps>(packed_, 0, row_, 0, 1, cols); }

 private:
  float* packed_;
  std::uint16_t row_[kGemmChunkBf16 + kLanes];
};

}  // namespace
}  // namespace bascule::BASCULE_ISA
