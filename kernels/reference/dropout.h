// SPDX-License-Identifier: Apache-2.0
// Reference for dropout.h, element by element. As all of reference/: plain loops, templates on the number type (float,
// double, or a dual number that differentiates them), the definition of "right"; never called by the program. Extents
// and scalars come from the kernel's own argument struct, arrays are passed beside it, for theirs are float.
#pragma once

#include <cstdint>

#include "kernels/dropout.h"

namespace bascule::reference {

struct PhiloxBlock {
  std::uint32_t word[4];
};

// Philox4x32-10. Source: Salmon et al. 2011, section 3.3; the vectors of Random123's kat_vectors are in
// tests/kernels/test_dropout.cpp.
inline PhiloxBlock philox4x32_10(PhiloxBlock counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xd2511f53} * counter.word[0];
    const std::uint64_t product1 = std::uint64_t{0xcd9e8d57} * counter.word[2];
    counter = {
        {static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0, static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1, static_cast<std::uint32_t>(product0)}};
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  return counter;
}

inline bool dropout_keeps(const DropoutStream& stream, std::uint64_t row_key, std::int64_t column) {
  const PhiloxBlock counter = {{static_cast<std::uint32_t>(16 * (column / 64) + column % 16),
                                static_cast<std::uint32_t>(row_key & 0xffffu),
                                static_cast<std::uint32_t>(row_key >> 16), stream.operation}};
  return philox4x32_10(counter, stream.key[0], stream.key[1]).word[(column % 64) / 16] >= stream.threshold;
}

template <typename T>
T dropout(T x, const DropoutStream& stream, std::uint64_t row_key, std::int64_t column) {
  if (stream.threshold == 0) return x;
  return dropout_keeps(stream, row_key, column) ? x * T(static_cast<double>(stream.scale)) : T(0);
}

template <typename T>
void dropout_forward(T* y, const T* x, const DropoutForward& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t c = 0; c < a.cols; ++c) {
      y[r * a.cols + c] = dropout(x[r * a.cols + c], a.stream, a.stream.threshold == 0 ? 0 : a.row_keys[r], c);
    }
  }
}

}  // namespace bascule::reference
