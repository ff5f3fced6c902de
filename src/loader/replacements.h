// SPDX-License-Identifier: Apache-2.0
// Samples that were bad, and those that stand in for them.
#pragma once

#include <cstdint>

namespace bascule {

// In place of a row: none was taken.
inline constexpr std::int64_t kNoRow = -1;

// The sample at `position` of epoch `epoch` shows the picture of `bad_row`, which is bad; `row` was taken in its place,
// or none was: an evaluation leaves the sample out, and where nothing is skipped it ends the run.
struct ReplacedSample {
  std::int64_t epoch = 0;
  std::int64_t position = 0;
  std::int64_t row = 0;
  std::int64_t bad_row = 0;
  std::int64_t reason = 0;  // picture_reason(), or a mark of worker.h
};

}  // namespace bascule
