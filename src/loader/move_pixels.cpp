// SPDX-License-Identifier: Apache-2.0
// The geometric operations of byte_picture.h.
#include <cstring>

#include "src/base/elementary.h"
#include "src/loader/byte_picture.h"

namespace bascule {
namespace {

constexpr double kRadiansOfDegree = 0x1.1df46a2529d39p-6;  // pi / 180
constexpr double kRoundsDouble = 0x1.8p52;                 // added and taken away: half to even

// Which pixel goes to column x of row y: that at the column column_by_x * x + column_by_y * y + first_column, of the
// row likewise, both rounded. The centre of a picture's first pixel is at 0.
struct Origin {
  double column_by_x, column_by_y, first_column;
  double row_by_x, row_by_y, first_row;
};

double rounded(double value) noexcept { return (value + kRoundsDouble) - kRoundsDouble; }

void move_pixels(const BytePicture& picture, const Origin& from) noexcept {
  const std::int64_t side = picture.side, plane = picture.plane();
  const double last = static_cast<double>(side - 1);
  std::memcpy(picture.copy, picture.pixels, static_cast<std::size_t>(picture.values()));
  for (std::int64_t y = 0; y < side; ++y) {
    const double row_begin = from.first_row + from.row_by_y * static_cast<double>(y);
    const double column_begin = from.first_column + from.column_by_y * static_cast<double>(y);
    for (std::int64_t x = 0; x < side; ++x) {
      const double row = rounded(row_begin + from.row_by_x * static_cast<double>(x));
      const double column = rounded(column_begin + from.column_by_x * static_cast<double>(x));
      const bool is_inside = row >= 0.0 && row <= last && column >= 0.0 && column <= last;
      const std::int64_t source =
          is_inside ? static_cast<std::int64_t>(row) * side + static_cast<std::int64_t>(column) : 0;
      std::uint8_t* const to = picture.pixels + y * side + x;
      for (std::int64_t c = 0; c < 3; ++c)
        to[c * plane] = is_inside ? picture.copy[c * plane + source] : std::uint8_t{0};
    }
  }
}

}  // namespace

// By the middle of a row.
void shear_x(const BytePicture& picture, double share) noexcept {
  move_pixels(picture, {1.0, share, 0.5 * share, 0.0, 1.0, 0.0});
}

void shear_y(const BytePicture& picture, double share) noexcept {
  move_pixels(picture, {1.0, 0.0, 0.0, share, 1.0, 0.5 * share});
}

void translate(const BytePicture& picture, std::int64_t columns, std::int64_t rows) noexcept {
  move_pixels(picture, {1.0, 0.0, -static_cast<double>(columns), 0.0, 1.0, -static_cast<double>(rows)});
}

void rotate(const BytePicture& picture, double degrees) noexcept {
  const double cosine = fixed_cos(degrees * kRadiansOfDegree), sine = fixed_sin(degrees * kRadiansOfDegree);
  const double centre = 0.5 * static_cast<double>(picture.side - 1);
  move_pixels(picture,
              {cosine, -sine, centre - (cosine - sine) * centre, sine, cosine, centre - (sine + cosine) * centre});
}

}  // namespace bascule
