// SPDX-License-Identifier: Apache-2.0
// The norm of the gradient, summed over blocks in their order, and what clipping by it leaves. After the seal.
#pragma once

#include "src/base/span.h"
#include "src/update/update_settings.h"

namespace bascule {

double sum_in_order(Span<const double> of_blocks) noexcept;
// The L2 norm of the gradient, before clipping; squares: of the sum, by block.
double gradient_norm(Span<const double> squares, const UpdateSettings& settings) noexcept;
// The gradients' sum times this is the gradient, clipped.
float gradient_scale(double norm, const UpdateSettings& settings) noexcept;

}  // namespace bascule
