// SPDX-License-Identifier: Apache-2.0
// How much of a picture is left at each timestep of a diffusion model, and the timesteps at which a sampler calls it.
// In float64; of the C library only sqrt, floor and the rounding to integers, which IEEE 754 defines to the bit.
#pragma once

#include <cstdint>
#include <vector>

#include "src/draw/sampler_options.h"

namespace bascule {

// alpha(t) is the square of the picture's factor at timestep t, 1 - alpha(t) that of the noise:
// alpha(t) = product over k <= t of 1 - beta(k). Source: Ho, Jain, Abbeel 2020, equation 4.
class NoiseSchedule {
 public:
  explicit NoiseSchedule(const SamplerOptions& options);

  // t <= training_steps - 1; below 0 it is the alpha that a last step ends with.
  double alpha(std::int64_t t) const;
  // The ratio of noise to picture, sqrt((1 - alpha) / alpha); linear between timesteps. 0 <= t <= training_steps - 1.
  double sigma(double t) const;

 private:
  std::vector<double> alphas_;
  double final_alpha_;
};

// Descending, one for each step. The number of steps is one that sampling_program() takes.
std::vector<double> spaced_timesteps(const SamplerOptions& options, int steps);
// The same rounded to integers, half to even.
std::vector<std::int64_t> whole_timesteps(const SamplerOptions& options, int steps);

}  // namespace bascule
