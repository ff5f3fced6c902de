// SPDX-License-Identifier: Apache-2.0
// Whether a run that was repeated gave what was recorded: bit for bit, or, where bits are not promised, by its figures.
#pragma once

#include <cstddef>
#include <string>

#include "src/reproduce/run_record.h"

namespace bascule {

struct RepeatJudgement {
  bool has_equal_bits = false;
  std::string first_difference;                // "update 30: its loss is ..., was ..."; empty: none
  std::size_t intervals = 0, evaluations = 0;  // that both have and that are equal
  std::size_t pictures = 0;                    // of runs that draw, the same
  double loss = 0.0, loss_then = 0.0;          // means over all updates
  bool has_equal_figures = false;              // the mean losses are within 1 % of each other
};

RepeatJudgement judge_repeat(const RunRecord& then, const RunRecord& now);
// Of runs that draw, by their folders. Figures are equal where bits are. Throws Error kData.
RepeatJudgement judge_repeated_pictures(const std::string& then, const std::string& now);

}  // namespace bascule
