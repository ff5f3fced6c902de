// SPDX-License-Identifier: Apache-2.0
#include "src/update/gradient_norm.h"

#include <algorithm>
#include <cmath>

namespace bascule {

double sum_in_order(Span<const double> of_blocks) noexcept {
  double sum = 0.0;
  for (const double of_block : of_blocks) sum += of_block;
  return sum;
}

double gradient_norm(Span<const double> squares, const UpdateSettings& settings) noexcept {
  return settings.gradient_factor * std::sqrt(sum_in_order(squares));
}

// torch.nn.utils.clip_grad_norm_: min(1, max / (norm + 1e-6))
float gradient_scale(double norm, const UpdateSettings& settings) noexcept {
  const double clip = settings.max_grad_norm > 0.0 ? settings.max_grad_norm / (norm + 1e-6) : 1.0;
  return static_cast<float>(settings.gradient_factor * std::min(clip, 1.0));
}

}  // namespace bascule
