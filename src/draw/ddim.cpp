// SPDX-License-Identifier: Apache-2.0
// DDIM without added noise (eta 0): from timestep t to t - floor(training_steps / steps),
//   x <- sqrt(alpha') * x0 + sqrt(1 - alpha') * noise,
// where x0 and noise are what the output says of x. Source: Song, Meng, Ermon 2021, equation 12; diffusers'
// DDIMScheduler.
#include <cmath>

#include "src/draw/sampler.h"

namespace bascule {
namespace {

SamplingProgram ddim_program(const SamplerOptions& options, const NoiseSchedule& noise, int steps) {
  SamplingProgram program{kOneStepSlots, 1.0, {}};
  for (const std::int64_t t : whole_timesteps(options, steps)) {
    const double alpha = noise.alpha(t), next_alpha = noise.alpha(t - options.training_steps / steps);
    const double picture = std::sqrt(alpha), noisy = std::sqrt(1.0 - alpha);
    const double next_picture = std::sqrt(next_alpha), next_noisy = std::sqrt(1.0 - next_alpha);
    SamplingCall call{static_cast<double>(t), 1.0,          kLatentsSlot,
                      kOneStepOutputSlot,     kLatentsSlot, std::vector<double>(kOneStepSlots)};
    if (options.prediction == Prediction::kNoise) {
      // x0 = (x - noisy * output) / picture, noise = output
      call.weights[kLatentsSlot] = next_picture / picture;
      call.weights[kOneStepOutputSlot] = next_noisy - next_picture * noisy / picture;
    } else {
      // x0 = picture * x - noisy * output, noise = picture * output + noisy * x
      call.weights[kLatentsSlot] = next_picture * picture + next_noisy * noisy;
      call.weights[kOneStepOutputSlot] = next_noisy * picture - next_picture * noisy;
    }
    program.calls.push_back(call);
  }
  return program;
}

}  // namespace

extern const Sampler kDdim;
const Sampler kDdim = {"ddim", "DDIMScheduler", TimestepSpacing::kLeading, true, {}, ddim_program};

}  // namespace bascule
