// SPDX-License-Identifier: Apache-2.0
// The way out: rows of the stored picture, one by one from the top, into the planes of the upright one. A row that lies
// as it will be seen is written in place; a mirrored or transposed one goes through a band of rows. Sealed world.
#pragma once

#include <cstdint>

#include "firmware_shims/codec/arena.h"
#include "firmware_shims/codec/orientation.h"
#include "firmware_shims/codec/resample.h"

namespace bascule::codec {

class PlaneWriter {
 public:
  // pixels: 3 planes of side x side floats; the border, where there is one, becomes border[c]. False: the arena is
  // full.
  bool open(Arena* arena, float* pixels, std::int64_t side, const Geometry& geometry, Turn turn,
            const float border[3]) noexcept;

  // Where the next stored row's channel c goes: columns() floats.
  void row_begin(float* out[3]) noexcept;
  void row_end() noexcept;
  std::int64_t columns() const { return stored_columns_; }
  std::int64_t rows() const { return stored_rows_; }

 private:
  float* pixel(std::int64_t channel, std::int64_t upright_row, std::int64_t upright_column) const;
  float* band_row(std::int64_t channel, std::int64_t row) const;
  void flush_mirrored() const;
  void flush_transposed() const;

  float* pixels_ = nullptr;
  float* band_ = nullptr;  // (3, kBandRows, stored_columns_); null where rows are written in place
  std::int64_t side_ = 0;
  std::int64_t pad_x_ = 0, pad_y_ = 0;
  std::int64_t stored_rows_ = 0, stored_columns_ = 0;
  std::int64_t next_row_ = 0;    // stored row that row_begin gives out next
  std::int64_t band_first_ = 0;  // stored row of the band's first row
  Turn turn_ = {};
};

}  // namespace bascule::codec
