// SPDX-License-Identifier: Apache-2.0
// The rows of a manifest told by their content, so that a run may go on when bad pictures were mended or their rows
// taken out, and may not when anything else is different.
//
// A row's content is its text, its label and the name of its picture without folders. A term is a hash of a row's
// number, content and picture's size. Rows are cut into at most kMostRowBlocks blocks of equal size, and the terms of a
// block are added (mod 2^64): a row that is known to be different can be taken out of a sum and put in as it was.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/span.h"
#include "src/index/manifest.h"

namespace bascule {

inline constexpr std::int64_t kMostRowBlocks = 256;

// A row that shows a picture which was found bad or missing, or that has an empty text, as it was then.
struct BadRow {
  std::int64_t row = 0;
  std::int64_t content = 0;  // row_content()
  std::int64_t bytes = 0;    // of the picture; 0 if it was missing
};

// The rows that a checkpoint was trained with.
struct RowsOfCheckpoint {
  std::int64_t count = 0;               // with those that had been taken out
  std::vector<std::int64_t> blocks;     // sums of terms
  std::vector<std::int64_t> taken_out;  // ascending
  std::vector<BadRow> bad;              // ascending; of those that were there
};

// The digest of a row's content, in a measured manifest. Allocates nothing.
std::int64_t row_content(const Manifest& manifest, std::int64_t row) noexcept;

// Sums of the blocks, without rows that were taken out.
std::vector<std::int64_t> row_blocks(const Manifest& manifest);

// The rows that show a picture of one of `bad`, or one that is missing, or without pictures those with an empty text,
// whether or not the run has come to them: ascending, at most as many as there is room for, without those that were
// taken out. `bad` is sorted on the way.
// Usable after the seal. Returns how many there are in `rows`.
std::size_t find_bad_rows(const Manifest& manifest, Span<std::int64_t> bad, Span<BadRow> rows) noexcept;

// The change to a row whose picture had been found bad.
struct MendedRow {
  std::int64_t row = 0;
  bool taken_out = false;
  std::int64_t bytes_then = 0, bytes_now = 0;  // of its picture, where it is still there
};

struct RowsComparison {
  std::string problem;                  // what differs, where the rows are not the same; else empty
  std::vector<std::int64_t> taken_out;  // rows of then that the manifest lacks, ascending
  std::vector<MendedRow> mended;        // of those that were bad, the ones that are different or gone now
};

// manifest: as its file is now, nothing taken out.
RowsComparison compare_rows(const Manifest& manifest, const RowsOfCheckpoint& then);

}  // namespace bascule
