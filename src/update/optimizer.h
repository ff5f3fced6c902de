// SPDX-License-Identifier: Apache-2.0
// Optimizers: what each keeps beside the weights, and what it does to a block of the trained range. An optimizer is one
// constant; plan, seal, checkpoints and the exchange between nodes walk its list of states and know none by name.
//
//   A new one: a kind with its states and its passes, and a row in optimizer_kind().
#pragma once

#include <cstdint>

#include "kernels/table.h"
#include "src/base/span.h"
#include "src/graph/parameters.h"
#include "src/settings/settings.h"
#include "src/update/update_settings.h"

namespace bascule {

// Float32 values that an optimizer keeps from update to update; zero before the first.
struct OptimizerState {
  enum class Lies {
    kByElement,  // like the trained parameters: one value an element, gaps included
    kByRow,      // one value a row of a tensor, tensors in the order of the trained range; needs RunDivision::kByRow
  };
  const char* name;  // its category in the memory plan; in a checkpoint it stands before a tensor's name, with a dot
  Lies lies = Lies::kByElement;
};

inline constexpr std::size_t kMostStates = 4, kMostMeasures = 2;

// A block in a pass of an optimizer. Aliasing: none.
struct OptimizerBlock {
  const UpdateSettings& settings;
  const KernelTable& kernels;
  double learning_rate, weight_decay;  // of the block's group
  float* parameter;                    // (count)
  float* gradient;                     // (count): the sum over all samples; a pass may overwrite it for the next one
  std::int64_t count;
  std::int64_t rows, cols;  // whole rows, which the block's elements begin with; 0 unless the layout is divided by rows
  float gradient_scale;     // times `gradient` it is the gradient, clipped
  float* states[kMostStates];                   // the block's values of each state: `count` by element, `rows` by row
  double* measures[kMostMeasures];              // the block's own; the first pass writes them
  Span<const double> of_tensor[kMostMeasures];  // those of all blocks of its run, in later passes
};
using OptimizerPass = void (*)(const OptimizerBlock& block) noexcept;

struct OptimizerKind {
  Span<const OptimizerState> states;  // at most kMostStates
  Span<const OptimizerPass> passes;   // over all blocks, one after another
  std::size_t measures = 0;           // numbers that the first pass takes of a block and others read; kMostMeasures
  RunDivision runs = RunDivision::kByRule;
};

// AdamW: exp_avg and exp_avg_sq. LAMB (You et al. 2020, algorithm 2): the same, and each tensor moves in proportion to
// its norm (kernels/lamb.h).
const OptimizerKind& optimizer_kind(Optimizer optimizer);

}  // namespace bascule
