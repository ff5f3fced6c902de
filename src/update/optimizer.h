// SPDX-License-Identifier: Apache-2.0
// Optimizers, Adafactor's passes among them.
#pragma once

#include <cstdint>

#include "kernels/table.h"
#include "src/base/span.h"
#include "src/graph/parameters.h"
#include "src/settings/settings.h"
#include "src/update/schedule.h"

namespace bascule {

// Optimizers: what each keeps beside the weights, and what it does to a block of the trained range. An optimizer is one
// constant; plan, seal, checkpoints and the exchange between nodes walk its list of states and know none by name.
//
//   A new one: a kind with its states and its passes, and a row in optimizer_kind().

// Float32 values that an optimizer keeps from update to update; zero before the first.
struct OptimizerState {
  enum class Lies {
    kByElement,  // like the trained parameters: one value an element, gaps included
    // Tensor by tensor in the order of the trained range; these need RunDivision::kByMatrix.
    kByRow,      // one value a row of a matrix, none of a vector
    kByColumn,   // one value a column of each matrix, none of a vector
    kOfVectors,  // one value an element of a vector, none of a matrix
  };
  const char* name;  // its category in the memory plan; in a checkpoint it stands before a tensor's name, with a dot
  Lies lies = Lies::kByElement;
};

inline constexpr std::size_t kMostStates = 4, kMostMeasures = 2;

// A block in a pass of an optimizer. Aliasing: none.
struct OptimizerBlock {
  const UpdateSettings& settings;
  const KernelTable& kernels;
  const UpdateBlock& block;
  double learning_rate, weight_decay;  // of the block's group
  float* parameter;                    // (block.count)
  float* gradient;                     // (block.count): the sum of all samples; a pass may overwrite it for the next
  float gradient_scale;                // times `gradient` it is the gradient, clipped
  std::int64_t tensor_elements;        // of the block's run
  // The block's values of each state: by element, or by row; by column those of its first matrix, or of the one of
  // which it is a part.
  float* states[kMostStates];
  float* columns;                               // column_room(block), where the kind measures columns
  double* measures[kMostMeasures];              // the block's own
  Span<const double> of_tensor[kMostMeasures];  // those of all blocks of its run, written in an earlier pass
};
using OptimizerPass = void (*)(const OptimizerBlock& block) noexcept;

struct OptimizerKind {
  Span<const OptimizerState> states;  // at most kMostStates
  Span<const OptimizerPass> passes;   // over all blocks, one after another
  std::size_t measures = 0;           // numbers that one pass takes of a block and later ones read; kMostMeasures
  RunDivision runs = RunDivision::kByRule;
  bool measures_columns = false;  // of matrices: blocks have room for sums of columns
  bool is_shared_out = true;      // between the nodes of `sharded`; false: all nodes hold all states, which are small
};

// AdamW: exp_avg and exp_avg_sq. LAMB (You et al. 2020, algorithm 2): the same, and each tensor moves in proportion to
// its norm (kernels/optimizers.h). Adafactor (kernels/optimizers.h): means of squares by row and column of each matrix.
const OptimizerKind& optimizer_kind(Optimizer optimizer);

// The memory traffic of an update, in bytes for each trained parameter. It reads gradients for their norm; then AdamW
// reads four ranges and writes three, LAMB does as much at least. Adafactor reads gradients for their squares, makes
// them directions, and reads both and writes one for the step.
constexpr double update_bytes_of_parameter(Optimizer optimizer) {
  return (optimizer == Optimizer::kAdafactor ? 7.0 : 8.0) * sizeof(float);
}

// Adafactor over the blocks of a tensor, in four passes: squares by row and column; the columns of matrices that
// several blocks share; directions; the step. As Trainer's `optim="adafactor"`: scale_parameter and relative_step off,
// decay rate -0.8, clipping threshold 1, no first moment. Formulas: kernels/optimizers.h.

extern const OptimizerKind kAdafactor;

}  // namespace bascule
