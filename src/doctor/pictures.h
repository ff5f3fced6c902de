// SPDX-License-Identifier: Apache-2.0
// Pictures of the splits, read and compared by thumbnails.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "src/doctor/data.h"
#include "src/doctor/equal_rows.h"

namespace bascule {

// Pictures as 8 x 8 squares of RGB, for finding those that are the same picture in another size, quality or format.
//
// Two thumbnails are alike if no value differs by more than kMostApart and the mean difference is at most
// kMostApartMean. Measured on 1,883 emoji of 64 pixels a side: two different ones differ by 14 at least (white squares
// of two sizes), the same one as a JPEG of quality 75 by 7 at most in 95 % of the cases, of half the size by 12.
// Alike pictures are looked for among neighbours in four sorted tables, so that a pair in a hundred may be missed; and
// only such are compared, so that no number of pictures makes it slow.

inline constexpr int kThumbnailSide = 8;
inline constexpr int kMostApart = 12;
inline constexpr double kMostApartMean = 2.5;

using Thumbnail = std::array<std::uint8_t, 3 * kThumbnailSide * kThumbnailSide>;  // planes R, G, B

// The means of squares of a picture: planes of side x side values of 0 to 255, which may lie outside. side >= 1.
Thumbnail thumbnail_of(const float* pixels, std::int64_t side);

bool are_alike(const Thumbnail& a, const Thumbnail& b) noexcept;

// Groups of two or more that are alike, or are joined by others that are; each ascending, the groups by their first.
std::vector<std::vector<std::uint32_t>> find_alike(const std::vector<Thumbnail>& thumbnails);

// Reads and decodes every picture of the splits as an evaluation does. Before the seal. Memory: 224 bytes a picture,
// and while equal ones are looked for, 250 more.

struct PictureRecord {
  std::int64_t reason = 0;              // 0: it can be used; picture_reason(); minus errno of a file
  std::uint32_t width = 0, height = 0;  // upright; 0 where unknown
  bool has_thumbnail = false;
  bool is_grey_16 = false;  // a grey PNG of 16 bits
};

// By picture of a split.
struct SplitPictures {
  std::size_t split = 0;
  std::vector<PictureRecord> records;
  RowDigests digests;                 // of the files' bytes; kNoContent where a file was not read
  std::vector<Thumbnail> thumbnails;  // of those that can be used
  double seconds = 0.0;               // of one core, that reading and decoding took
};

// Reads all splits; none where the model reads no pictures. threads: that decode.
std::vector<SplitPictures> read_pictures(const OpenedData& opened, int threads);

PictureFigures figures_of(const SplitPictures& pictures);
// By row of the split.
RowDigests digests_by_row(const Manifest& manifest, const SplitPictures& pictures);

// Findings about single pictures, then about equal ones.
void find_in_pictures(const OpenedData& opened, const std::vector<SplitPictures>& pictures,
                      std::vector<Finding>* findings);
void find_equal_pictures(const OpenedData& opened, const std::vector<SplitPictures>& pictures,
                         std::vector<Finding>* findings);

}  // namespace bascule
