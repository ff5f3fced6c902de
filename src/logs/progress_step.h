// SPDX-License-Identifier: Apache-2.0
// How far a run is within what is under way: what Progress shows and RunStatus tells.
#pragma once

#include <cstdint>

namespace bascule {

struct ProgressStep {
  std::int64_t done = 0;            // steps done of the total
  double epoch = 0.0;               // negative: not shown (evaluation)
  double loss = 0.0;                // NaN: not shown
  double samples_per_second = 0.0;  // 0: not shown
  double tokens_per_second = 0.0;   // that a model writes; 0: not shown
  std::int64_t rows_of_next = 0;    // of the step under way that are done; 0: not shown
  // Where pictures are drawn: those under way, and the calls of the sampler for them, done and in all; 0: not shown.
  std::int64_t pictures_of_next = 0, call = 0, calls = 0;

  // Of the total, with the part of what is under way.
  double amount() const {
    const double part = calls > 0 ? static_cast<double>(call) / static_cast<double>(calls) : 0.0;
    return static_cast<double>(done) + part * static_cast<double>(pictures_of_next);
  }
};

}  // namespace bascule
