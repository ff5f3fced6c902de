// SPDX-License-Identifier: Apache-2.0
// The options of a sampler, and how a diffusers folder states them: scheduler/scheduler_config.json. Before the seal.
#pragma once

#include <cstdint>
#include <string>

#include "src/json/value.h"

namespace bascule {

struct Sampler;

enum class BetaSchedule { kLinear, kScaledLinear };  // scaled: linear in the square root
enum class TimestepSpacing { kLeading, kLinspace, kTrailing };
// The model's output: the noise in its input, or v = sqrt(a) * noise - sqrt(1 - a) * picture.
enum class Prediction { kNoise, kVelocity };

struct SamplerOptions {
  const Sampler* sampler = nullptr;
  std::int64_t training_steps = 1000;  // timesteps of the model: 0 to training_steps - 1
  double beta_start = 0, beta_end = 0;
  BetaSchedule beta_schedule = BetaSchedule::kLinear;
  Prediction prediction = Prediction::kNoise;
  TimestepSpacing spacing = TimestepSpacing::kLeading;
  bool is_final_alpha_one = false;  // the last step ends without noise, not with that of timestep 0
  std::int64_t steps_offset = 1;    // added to the timesteps of leading spacing
};

// wanted: "default" for the class that the file names, else the name of a sampler; spacing: "" for what the file says,
// else "leading", "linspace" or "trailing". What the file lacks has the default of the class that is used. As in
// StableDiffusionPipeline, steps_offset is 1 and samples are not clipped, whatever the file says.
// Throws Error kData naming the file and the key, also for options that the samplers here do not have; kSettings for an
// unknown `wanted` or `spacing`.
SamplerOptions read_sampler_options(const std::string& path, const std::string& wanted = "default",
                                    const std::string& spacing = "");
// The same for a document that is read already. where: its file, for errors.
SamplerOptions sampler_options_of(const Json& config, const std::string& where, const std::string& wanted = "default",
                                  const std::string& spacing = "");

}  // namespace bascule
