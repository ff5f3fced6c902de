// SPDX-License-Identifier: Apache-2.0
// Euler's method on the ratio sigma of noise to picture, from which latents are scaled for the model:
//   x <- x + (x - x0) / sigma * (next_sigma - sigma),
// where x0 is what the output says of x; the last step ends at sigma 0. Source: Karras, Aittala, Aila, Laine 2022,
// algorithm 2 without churn; diffusers' EulerDiscreteScheduler.
#include <cmath>

#include "src/draw/sampler.h"

namespace bascule {
namespace {

SamplingProgram euler_program(const SamplerOptions& options, const NoiseSchedule& noise, int steps) {
  const std::vector<double> timesteps = spaced_timesteps(options, steps);
  SamplingProgram program{kOneStepSlots, 1.0, {}};
  const double first_sigma = noise.sigma(timesteps.front());
  program.initial_scale =
      options.spacing == TimestepSpacing::kLeading ? std::sqrt(first_sigma * first_sigma + 1.0) : first_sigma;
  for (std::size_t i = 0; i < timesteps.size(); ++i) {
    const double sigma = noise.sigma(timesteps[i]);
    const double change = (i + 1 < timesteps.size() ? noise.sigma(timesteps[i + 1]) : 0.0) - sigma;
    const double square = sigma * sigma + 1.0, root = std::sqrt(square);
    SamplingCall call{timesteps[i],       1.0 / root,   kLatentsSlot,
                      kOneStepOutputSlot, kLatentsSlot, std::vector<double>(kOneStepSlots)};
    if (options.prediction == Prediction::kNoise) {
      // x0 = x - sigma * output
      call.weights[kLatentsSlot] = 1.0;
      call.weights[kOneStepOutputSlot] = change;
    } else {
      // x0 = x / square - sigma * output / root, and so (x - x0) / sigma = sigma * x / square + output / root
      call.weights[kLatentsSlot] = 1.0 + change * sigma / square;
      call.weights[kOneStepOutputSlot] = change / root;
    }
    program.calls.push_back(call);
  }
  return program;
}

}  // namespace

extern const Sampler kEuler;
const Sampler kEuler = {"euler", "EulerDiscreteScheduler", TimestepSpacing::kLinspace, false, {}, euler_program};

}  // namespace bascule
