// SPDX-License-Identifier: Apache-2.0
// Dropout whose every random number is a function of where the element is, never of when or by whom it is computed.
//
//   keep(row, column) = philox4x32_10(counter, key).word >= threshold;   y = keep ? x / (1 - p) : 0
//   key     = (stream.key[0], stream.key[1])                              from seed and step
//   counter = (16 * (column / 64) + column % 16, position, sample, stream.operation);   word = (column % 64) / 16
// where a row's key holds its sample (high 48 bits, of which the low 32 are used) and its position there (low 16 bits).
// The order within 64 columns lets sixteen lanes hold sixteen counters, and a word of all lanes be sixteen columns.
// Source: Srivastava et al. 2014; Salmon et al. 2011 (Philox), tested against Random123's known answers.
#pragma once

#include <cstdint>

namespace bascule {

struct DropoutStream {
  std::uint32_t threshold = 0;  // dropped if word < threshold = round(p * 2^32); 0: no dropout
  float scale = 1.0f;           // 1 / (1 - p)
  std::uint32_t key[2] = {0, 0};
  std::uint32_t operation = 0;  // a number of its own for every place where the model drops
};

constexpr std::uint64_t dropout_row_key(std::uint64_t sample, std::uint64_t position) {
  return (sample << 16) | (position & 0xffffu);
}

// y[r,c] = dropout(x[r,c]). Shapes: y, x (rows, cols) dense; row_keys (rows). Aliasing: y may be x. Overwrites y.
// The same call on gradients is the backward pass: d_x = dropout(d_y).
struct DropoutForward {
  float* y;
  const float* x;
  const std::uint64_t* row_keys;
  std::int64_t rows, cols;
  DropoutStream stream;
};

}  // namespace bascule
