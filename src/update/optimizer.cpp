// SPDX-License-Identifier: Apache-2.0
#include "src/update/optimizer.h"

#include <cmath>

#include "src/base/elementary.h"
#include "src/update/adafactor.h"
#include "src/update/gradient_norm.h"

namespace bascule {
namespace {

constexpr OptimizerState kMoments[] = {{"exp_avg"}, {"exp_avg_sq"}};

// For the bias of a moment that began at 0.
double bias_correction(double beta, const UpdateSettings& settings) noexcept {
  return 1.0 - fixed_power(beta, static_cast<double>(settings.step));
}

// The members that the arguments of AdamW and LambDirection share: the block, its moments and their decay.
template <typename Arguments>
Arguments moments_of(const OptimizerBlock& b) noexcept {
  const UpdateSettings& s = b.settings;
  Arguments a{};
  a.parameter = b.parameter;
  a.exp_avg = b.states[0];
  a.exp_avg_sq = b.states[1];
  a.gradient = b.gradient;
  a.count = b.block.count;
  a.gradient_scale = b.gradient_scale;
  a.one_minus_beta1 = static_cast<float>(1.0 - s.beta1);
  a.beta2 = static_cast<float>(s.beta2);
  a.one_minus_beta2 = static_cast<float>(1.0 - s.beta2);
  a.inverse_sqrt_correction2 = static_cast<float>(1.0 / std::sqrt(bias_correction(s.beta2, s)));
  a.epsilon = static_cast<float>(s.epsilon);
  return a;
}

void adamw_block(const OptimizerBlock& b) noexcept {
  AdamW a = moments_of<AdamW>(b);
  a.decay = static_cast<float>(1.0 - b.learning_rate * b.weight_decay);
  a.step_size = static_cast<float>(b.learning_rate / bias_correction(b.settings.beta1, b.settings));
  b.kernels.adamw(a);
}

// LAMB's measures: squares of the parameters and of the direction.
enum Squares { kOfParameters, kOfDirection };

// The gradient becomes the direction; both norms are measured while the block is in the caches.
void lamb_direction_block(const OptimizerBlock& b) noexcept {
  LambDirection a = moments_of<LambDirection>(b);
  a.weight_decay = static_cast<float>(b.weight_decay);
  a.inverse_correction1 = static_cast<float>(1.0 / bias_correction(b.settings.beta1, b.settings));
  b.kernels.lamb_direction(a);
  b.kernels.sum_of_squares({b.measures[kOfParameters], a.parameter, a.count});
  b.kernels.sum_of_squares({b.measures[kOfDirection], a.gradient, a.count});
}

// The trust ratio of the block's tensor; 1 if nothing decays it or either norm is 0.
double trust_ratio(const OptimizerBlock& b) noexcept {
  if (b.weight_decay == 0.0) return 1.0;
  const double parameters = sum_in_order(b.of_tensor[kOfParameters]);
  const double direction = sum_in_order(b.of_tensor[kOfDirection]);
  return parameters > 0.0 && direction > 0.0 ? std::sqrt(parameters) / std::sqrt(direction) : 1.0;
}

void lamb_step_block(const OptimizerBlock& b) noexcept {
  b.kernels.lamb_step({b.parameter, b.gradient, b.block.count, static_cast<float>(b.learning_rate * trust_ratio(b))});
}

constexpr OptimizerPass kAdamWPasses[] = {&adamw_block};
constexpr OptimizerPass kLambPasses[] = {&lamb_direction_block, &lamb_step_block};

const OptimizerKind kAdamW = {{kMoments, 2}, {kAdamWPasses, 1}};
const OptimizerKind kLamb = {{kMoments, 2}, {kLambPasses, 2}, 2, RunDivision::kByTensor};

}  // namespace

const OptimizerKind& optimizer_kind(Optimizer optimizer) {
  if (optimizer == Optimizer::kAdafactor) return kAdafactor;
  return optimizer == Optimizer::kLamb ? kLamb : kAdamW;
}

}  // namespace bascule
