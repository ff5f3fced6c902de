// SPDX-License-Identifier: Apache-2.0
// Lengths of texts in at most a dozen bars.
#pragma once

#include <cstdint>
#include <vector>

#include "src/doctor/diagnosis.h"

namespace bascule {

struct LengthBar {
  std::int64_t from = 0, to = 0;    // tokens, both included
  std::int64_t texts = 0, cut = 0;  // cut: those of them that are
};

// Bars of equal width (1, 2 or 5 times a power of ten) from the shortest text to the longest that has a count of its
// own; the last also has all longer ones.
std::vector<LengthBar> length_bars(const TextFigures& figures);

}  // namespace bascule
