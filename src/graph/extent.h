// SPDX-License-Identifier: Apache-2.0
// Row extents. Every row count of the model is an expression in three numbers of a batch, with an upper bound per tape.
#pragma once

#include <cstdint>

namespace bascule {

// What a batch holds: B samples, R packed text tokens, M selected text rows (those whose token a masked-LM head
// predicts).
struct BatchCounts {
  std::int64_t samples = 0;
  std::int64_t text_rows = 0;
  std::int64_t selected_rows = 0;
};

// per_sample * B + per_text_row * R + per_selected_row * M + fixed
struct Extent {
  std::int64_t per_sample = 0;
  std::int64_t per_text_row = 0;
  std::int64_t per_selected_row = 0;
  std::int64_t fixed = 0;

  constexpr std::int64_t at(const BatchCounts& counts) const {
    return per_sample * counts.samples + per_text_row * counts.text_rows + per_selected_row * counts.selected_rows +
           fixed;
  }
  constexpr bool operator==(const Extent& other) const {
    return per_sample == other.per_sample && per_text_row == other.per_text_row &&
           per_selected_row == other.per_selected_row && fixed == other.fixed;
  }
};

constexpr Extent rows_per_sample(std::int64_t count) { return Extent{count, 0, 0, 0}; }
constexpr Extent text_rows() { return Extent{0, 1, 0, 0}; }
constexpr Extent selected_rows() { return Extent{0, 0, 1, 0}; }
constexpr Extent fixed_rows(std::int64_t count) { return Extent{0, 0, 0, count}; }

}  // namespace bascule
