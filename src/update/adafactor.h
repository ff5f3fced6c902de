// SPDX-License-Identifier: Apache-2.0
// Adafactor over the blocks of a tensor, in four passes: squares by row and column; the columns of matrices that
// several blocks share; directions; the step. As Trainer's `optim="adafactor"`: scale_parameter and relative_step off,
// decay rate -0.8, clipping threshold 1, no first moment. Formulas: kernels/adafactor.h.
#pragma once

#include "src/update/optimizer.h"

namespace bascule {

extern const OptimizerKind kAdafactor;

}  // namespace bascule
