// SPDX-License-Identifier: Apache-2.0
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
#pragma once

#include <vector>

#include "src/draw/sampler_options.h"

namespace bascule {

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

}  // namespace bascule
