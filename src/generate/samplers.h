// SPDX-License-Identifier: Apache-2.0
// Samplers of diffusion models, as programs over slots of latents.
#pragma once

#include <cstdint>
#include <vector>

#include "src/generate/sampler_options.h"

namespace bascule {

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
