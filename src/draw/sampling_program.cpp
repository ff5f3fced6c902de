// SPDX-License-Identifier: Apache-2.0
#include "src/draw/sampling_program.h"

#include <string>

#include "src/base/check.h"
#include "src/base/error.h"
#include "src/draw/sampler.h"

namespace bascule {
namespace {

void check_steps(const SamplerOptions& options, int steps) {
  const std::int64_t last = options.training_steps - 1;
  const auto refuse = [&](const std::string& what, const std::string& what_to_do) {
    throw Error(ErrorKind::kSettings, "num_inference_steps", std::to_string(steps) + what, what_to_do);
  };
  if (steps < 1) refuse(" is below 1", "use 1 or more");
  if (steps > options.training_steps) {
    const std::int64_t most = options.spacing == TimestepSpacing::kLeading ? last : options.training_steps;
    refuse(" is above the " + std::to_string(options.training_steps) + " timesteps of the model",
           "use " + std::to_string(most) + " or fewer");
  }
  if (options.spacing != TimestepSpacing::kLeading) return;
  const std::int64_t first = (steps - 1) * (options.training_steps / steps) + options.steps_offset;
  if (first > last) {
    refuse(" steps of timestep_spacing leading would begin at timestep " + std::to_string(first) +
               "; the last of the model is " + std::to_string(last),
           "use fewer steps, or timestep_spacing linspace or trailing");
  }
}

}  // namespace

SamplingProgram sampling_program(const SamplerOptions& options, int steps) {
  BASCULE_CHECK(options.sampler != nullptr && options.training_steps >= 2);
  check_steps(options, steps);
  return options.sampler->program(options, NoiseSchedule(options), steps);
}

}  // namespace bascule
