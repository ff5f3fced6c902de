// SPDX-License-Identifier: Apache-2.0
// A reader of one format in memory of its own, and the rows that it gives.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "firmware_shims/codec/arena.h"
#include "firmware_shims/codec/reader.h"
#include "tests/firmware_shims/engine_on_test.h"

namespace bascule::test {

using codec::Arena;
using codec::Limits;
using codec::Verdict;
using codec::Window;

constexpr Limits kLimits = {40'000'000, 500, 2000};

// Rows of RGBX of a window, in memory of their own.
struct Rows {
  Window window;
  std::vector<Bytes> rows;
};

inline void keep_rows(void* context, const std::uint8_t* data, std::int64_t stride, std::int64_t first,
                      std::int64_t count) {
  Rows& kept = *static_cast<Rows*>(context);
  EXPECT_EQ(first, kept.window.y_begin + static_cast<std::int64_t>(kept.rows.size()));
  for (std::int64_t r = 0; r < count; ++r) {
    const std::uint8_t* const row = data + r * stride;
    kept.rows.emplace_back(row + 4 * kept.window.x_begin, row + 4 * kept.window.x_end);
  }
}

template <typename PictureReader>
class ReaderOnTest {
 public:
  explicit ReaderOnTest(std::size_t bytes = std::size_t{4} << 20) : memory_(bytes + 64) {
    arena_.base = memory_.data() + (64 - reinterpret_cast<std::uintptr_t>(memory_.data()) % 64);
    arena_.size_bytes = bytes;
  }
  Verdict header(const Bytes& file) {
    arena_.used_bytes = 0;
    return reader_.read_header(&arena_, file.data(), file.size(), kLimits, nullptr);
  }
  // All of the picture where no window is given.
  Verdict read(const Bytes& file, Rows* kept, const Window* window = nullptr) {
    Verdict verdict = header(file);
    kept->window = window != nullptr ? *window : Window{0, reader_.width(), 0, reader_.height()};
    if (verdict.ok()) verdict = reader_.begin(1, kept->window);
    if (verdict.ok()) verdict = reader_.read_rows({kept, keep_rows});
    reader_.end();
    return verdict;
  }
  PictureReader& get() { return reader_; }

 private:
  Bytes memory_;
  Arena arena_;
  PictureReader reader_;
};

// EXIF's definition of the orientations: the stored place of an upright pixel.
inline Bytes upright_rgb(const Rows& stored, std::uint32_t orientation) {
  const std::size_t h = stored.rows.size(), w = stored.rows[0].size() / 4;
  const bool swaps = orientation >= 5;
  const std::size_t rows = swaps ? w : h, columns = swaps ? h : w;
  Bytes out;
  for (std::size_t y = 0; y < rows; ++y) {
    for (std::size_t x = 0; x < columns; ++x) {
      std::size_t sx = swaps ? y : x, sy = swaps ? x : y;
      if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8) sx = w - 1 - sx;
      if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7) sy = h - 1 - sy;
      out.insert(out.end(), stored.rows[sy].begin() + static_cast<std::ptrdiff_t>(4 * sx),
                 stored.rows[sy].begin() + static_cast<std::ptrdiff_t>(4 * sx + 3));
    }
  }
  return out;
}

}  // namespace bascule::test
