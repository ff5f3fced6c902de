// SPDX-License-Identifier: Apache-2.0
#include "firmware_shims/codec/planes.h"

#include <algorithm>

namespace bascule::codec {
namespace {

constexpr std::int64_t kBandRows = 16;  // a cache line of floats along a transposed row

}  // namespace

bool PlaneWriter::open(Arena* arena, float* pixels, std::int64_t side, const Geometry& geometry, Turn turn,
                       const float border[3]) noexcept {
  pixels_ = pixels;
  side_ = side;
  turn_ = turn;
  pad_x_ = geometry.x.pad;
  pad_y_ = geometry.y.pad;
  stored_rows_ = turn.transpose ? geometry.x.count : geometry.y.count;
  stored_columns_ = turn.transpose ? geometry.y.count : geometry.x.count;
  next_row_ = 0;
  band_first_ = 0;
  band_ = nullptr;
  if (turn.transpose || turn.mirror_x) {
    band_ = arena->take_array<float>(static_cast<std::size_t>(3 * kBandRows * stored_columns_));
    if (band_ == nullptr) return false;
  }
  if (geometry.x.count < side || geometry.y.count < side) {
    for (std::int64_t c = 0; c < 3; ++c) std::fill_n(pixels + c * side * side, side * side, border[c]);
  }
  return true;
}

float* PlaneWriter::pixel(std::int64_t channel, std::int64_t upright_row, std::int64_t upright_column) const {
  return pixels_ + (channel * side_ + pad_y_ + upright_row) * side_ + pad_x_ + upright_column;
}

float* PlaneWriter::band_row(std::int64_t channel, std::int64_t row) const {
  return band_ + (channel * kBandRows + row) * stored_columns_;
}

void PlaneWriter::row_begin(float* out[3]) noexcept {
  for (std::int64_t c = 0; c < 3; ++c) {
    if (band_ != nullptr) {
      out[c] = band_row(c, next_row_ - band_first_);
    } else {
      out[c] = pixel(c, turn_.mirror_y ? stored_rows_ - 1 - next_row_ : next_row_, 0);
    }
  }
}

void PlaneWriter::row_end() noexcept {
  ++next_row_;
  if (band_ == nullptr) return;
  if (next_row_ - band_first_ < kBandRows && next_row_ < stored_rows_) return;
  if (turn_.transpose) {
    flush_transposed();
  } else {
    flush_mirrored();
  }
  band_first_ = next_row_;
}

void PlaneWriter::flush_mirrored() const {
  for (std::int64_t r = band_first_; r < next_row_; ++r) {
    const std::int64_t upright = turn_.mirror_y ? stored_rows_ - 1 - r : r;
    for (std::int64_t c = 0; c < 3; ++c) {
      const float* const from = band_row(c, r - band_first_);
      std::reverse_copy(from, from + stored_columns_, pixel(c, upright, 0));
    }
  }
}

// Stored column x becomes an upright row; the band's rows become neighbours in it.
void PlaneWriter::flush_transposed() const {
  const std::int64_t rows = next_row_ - band_first_;
  for (std::int64_t c = 0; c < 3; ++c) {
    for (std::int64_t x = 0; x < stored_columns_; ++x) {
      const std::int64_t upright_row = turn_.mirror_x ? stored_columns_ - 1 - x : x;
      if (turn_.mirror_y) {
        float* const to = pixel(c, upright_row, stored_rows_ - next_row_);
        for (std::int64_t r = 0; r < rows; ++r) to[r] = band_row(c, rows - 1 - r)[x];
      } else {
        float* const to = pixel(c, upright_row, band_first_);
        for (std::int64_t r = 0; r < rows; ++r) to[r] = band_row(c, r)[x];
      }
    }
  }
}

}  // namespace bascule::codec
