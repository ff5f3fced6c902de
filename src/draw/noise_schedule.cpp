// SPDX-License-Identifier: Apache-2.0
#include "src/draw/noise_schedule.h"

#include <cmath>

#include "src/base/check.h"

namespace bascule {
namespace {

double beta_of(const SamplerOptions& options, std::int64_t k) {
  const bool is_scaled = options.beta_schedule == BetaSchedule::kScaledLinear;
  const double first = is_scaled ? std::sqrt(options.beta_start) : options.beta_start;
  const double last = is_scaled ? std::sqrt(options.beta_end) : options.beta_end;
  const double between =
      first + (last - first) * (static_cast<double>(k) / static_cast<double>(options.training_steps - 1));
  return is_scaled ? between * between : between;
}

// numpy.linspace(0, last, steps)[i]. The product of the rounded step decides which integer is nearest: at 27 steps
// i * last / (steps - 1) would lie on the other side of a half.
double linspace_timestep(std::int64_t last, int steps, int i) {
  if (steps == 1) return 0.0;
  if (i == steps - 1) return static_cast<double>(last);
  return i * (static_cast<double>(last) / (steps - 1));
}

}  // namespace

NoiseSchedule::NoiseSchedule(const SamplerOptions& options) {
  double product = 1.0;
  for (std::int64_t k = 0; k < options.training_steps; ++k) {
    product *= 1.0 - beta_of(options, k);
    alphas_.push_back(product);
  }
  final_alpha_ = options.is_final_alpha_one ? 1.0 : alphas_.front();
}

double NoiseSchedule::alpha(std::int64_t t) const {
  BASCULE_CHECK(t < static_cast<std::int64_t>(alphas_.size()));
  return t < 0 ? final_alpha_ : alphas_[static_cast<std::size_t>(t)];
}

double NoiseSchedule::sigma(double t) const {
  const auto at = [this](std::int64_t k) { return std::sqrt((1.0 - alpha(k)) / alpha(k)); };
  const double below = std::floor(t);
  const auto k = static_cast<std::int64_t>(below);
  BASCULE_CHECK(k >= 0);
  return t == below ? at(k) : at(k) + (t - below) * (at(k + 1) - at(k));
}

std::vector<double> spaced_timesteps(const SamplerOptions& options, int steps) {
  const std::int64_t total = options.training_steps, whole_steps = total / steps;
  std::vector<double> timesteps;
  for (int i = 0; i < steps; ++i) {  // from the first
    switch (options.spacing) {
      case TimestepSpacing::kLeading:
        timesteps.push_back(static_cast<double>((steps - 1 - i) * whole_steps + options.steps_offset));
        break;
      case TimestepSpacing::kLinspace: timesteps.push_back(linspace_timestep(total - 1, steps, steps - 1 - i)); break;
      case TimestepSpacing::kTrailing:
        timesteps.push_back(std::nearbyint(static_cast<double>(total) - static_cast<double>(i * total) / steps) - 1.0);
        break;
    }
  }
  return timesteps;
}

std::vector<std::int64_t> whole_timesteps(const SamplerOptions& options, int steps) {
  std::vector<std::int64_t> timesteps;
  for (const double t : spaced_timesteps(options, steps))
    timesteps.push_back(static_cast<std::int64_t>(std::nearbyint(t)));
  return timesteps;
}

}  // namespace bascule
