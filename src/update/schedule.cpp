// SPDX-License-Identifier: Apache-2.0
#include "src/update/schedule.h"

#include <algorithm>
#include <cmath>

#include "src/base/elementary.h"

namespace bascule {
namespace {

constexpr double kPi = 3.141592653589793;

}  // namespace

// The rate over its peak. s: the step, W: warmup_steps, T: total_steps, p = (s - W) / (T - W). Before W, of all but
// constant and polynomial_jump: r + (1 - r) s / W, r = start_ratio.
//   linear                max(0, (T - s) / (T - W))
//   cosine                max(0, (1 + cos(pi p)) / 2)
//   constant              1, also before W
//   constant_with_warmup  1
//   polynomial            (1 - e) (1 - p)^power + e, e = end / peak; p at most 1
//   cosine_with_restarts  (1 + cos(pi (cycles p mod 1))) / 2; 0 from p = 1 on
//   inverse_sqrt          1 / sqrt((s + t - W) / t), t = timescale, else W, else 10,000
//   cosine_with_min_lr    m + (1 - m) (1 + cos(pi p)) / 2, m = min_ratio
//   polynomial_jump       with a = (s + 1) / T: a / warmup_share below that share, then (1 - a)^power
double Schedule::at(std::int64_t step) const noexcept {
  // A run that is longer than its schedule keeps the rate of the schedule's end.
  const double s = static_cast<double>(std::min(step, total_steps)), warm = static_cast<double>(warmup_steps),
               total = static_cast<double>(total_steps);
  if (kind == Scheduler::kConstant) return learning_rate;
  if (kind == Scheduler::kPolynomialJump) {
    const double at = (s + 1.0) / total;
    return at < warmup_share ? learning_rate * (at / warmup_share)
                             : learning_rate * fixed_power(std::max(0.0, 1.0 - at), power);
  }
  if (step < warmup_steps) {
    const double risen = s / std::max(1.0, warm);
    return start_ratio > 0.0 ? learning_rate * (start_ratio + (1.0 - start_ratio) * risen) : learning_rate * risen;
  }
  const double span = std::max(1.0, total - warm), progress = (s - warm) / span;
  const auto half_cosine = [](double at) { return 0.5 * (1.0 + fixed_cos(kPi * at)); };
  switch (kind) {
    case Scheduler::kLinear: return learning_rate * std::max(0.0, (total - s) / span);
    case Scheduler::kCosine: return learning_rate * std::max(0.0, 0.5 * (1.0 + fixed_cos(kPi * (s - warm) / span)));
    case Scheduler::kPolynomial: {
      const double left = std::max(0.0, 1.0 - progress);
      return learning_rate * (((learning_rate - end) * fixed_power(left, power) + end) / learning_rate);
    }
    case Scheduler::kCosineWithRestarts:
      return progress >= 1.0 ? 0.0
                             : learning_rate * half_cosine(std::fmod(static_cast<double>(cycles) * progress, 1.0));
    case Scheduler::kInverseSqrt: {
      const double scale = timescale > 0 ? static_cast<double>(timescale) : warmup_steps > 0 ? warm : 1e4;
      return learning_rate * (1.0 / std::sqrt((s + (scale - warm)) / scale));
    }
    case Scheduler::kCosineWithMinLr: return learning_rate * (half_cosine(progress) * (1.0 - min_ratio) + min_ratio);
    default: return learning_rate;
  }
}

}  // namespace bascule
