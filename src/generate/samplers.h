// SPDX-License-Identifier: Apache-2.0
// Samplers of diffusion models: their options, and their programs over slots of latents.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/json/value.h"

namespace bascule {

// The options of a sampler, and how a diffusers folder states them: scheduler/scheduler_config.json. Before the seal.

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

// Samplers of diffusion models, as programs over slots of latents.

// A sampler as data. A diffusion model turns noise into latents by n calls, and a sampler says what each call reads and
// what becomes of its output. Every sampler here is linear in latents and outputs, so all that it does is a list of
// weights over numbered slots, each of which holds one set of latents. Computed in float64, before the seal.
//
// One call:
//   output = model(input_scale * slot[x], timestep)
//   slot[output] = output
//   slot[next] = sum over slots j of weights[j] * slot[j]      a slot whose weight is 0 is not read
// `next` may be a slot that the sum reads: the sum is taken element by element.
//
//   const SamplingProgram program = sampling_program(options, steps);
//   slot[program.calls.front().x] = program.initial_scale * noise;   noise: N(0, 1)
//   each call in turn; the result lies in slot[program.calls.back().next]

struct SamplingCall {
  double timestep = 0;     // may be fractional
  double input_scale = 1;  // of the model's input
  int x = 0, output = 0, next = 0;
  std::vector<double> weights;  // one for each slot
};

struct SamplingProgram {
  int slots = 0;
  double initial_scale = 1;
  std::vector<SamplingCall> calls;
};

// steps: at least 1. Throws Error kSettings for a number of steps whose timesteps the model does not have.
SamplingProgram sampling_program(const SamplerOptions& options, int steps);

// How much of a picture is left at each timestep of a diffusion model, and the timesteps at which a sampler calls it.
// In float64; of the C library only sqrt, floor and the rounding to integers, which IEEE 754 defines to the bit.

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

// One sampler: what it is called, what it takes for keys that a file lacks, and its program. Each is defined in a file
// of its own and listed in samplers.cpp.

// Every sampler has its latents in the first slot. A one-step sampler, whose steps read the newest output alone, has
// one more slot, for that output.
inline constexpr int kLatentsSlot = 0, kOneStepOutputSlot = 1, kOneStepSlots = 2;

// A key of which one value alone is supported.
struct OnlyValue {
  const char* key;
  const char* value;     // as JSON; "null": the key must be absent or null
  const char* fallback;  // what an absent key means
};

struct Sampler {
  const char* name;             // in settings
  const char* class_name;       // in scheduler_config.json
  TimestepSpacing spacing;      // where the file has no timestep_spacing
  bool is_final_alpha_one;      // where it has no set_alpha_to_one
  std::vector<OnlyValue> only;  // of this sampler
  SamplingProgram (*program)(const SamplerOptions& options, const NoiseSchedule& noise, int steps);
};

// All of them.
const std::vector<const Sampler*>& samplers();

}  // namespace bascule
