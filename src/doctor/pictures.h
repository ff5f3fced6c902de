// SPDX-License-Identifier: Apache-2.0
// Reads and decodes every picture of the splits as an evaluation does. Before the seal. Memory: 224 bytes a picture,
// and while equal ones are looked for, 250 more.
#pragma once

#include <cstdint>
#include <vector>

#include "src/doctor/data.h"
#include "src/doctor/equal_rows.h"
#include "src/doctor/thumbnails.h"

namespace bascule {

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

// Of all splits; none where the model reads no pictures. threads: that decode.
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
