// SPDX-License-Identifier: Apache-2.0
// PNDM without Runge-Kutta steps (PLMS): a linear multistep method over the last four outputs. From alpha a to alpha b,
//   x <- sqrt(b / a) * x - (b - a) * noise / (a * sqrt(1 - b) + sqrt(a * (1 - a) * b)),
// where noise is a weighted sum of outputs. The second timestep comes twice: the first call is a plain step, the second
// repeats it from the same latents with the mean of both outputs, and its own output is dropped. Source: Liu, Ren, Lin,
// Zhao 2022, equations 9 and 12; diffusers' PNDMScheduler with skip_prk_steps.
#include <cmath>

#include "src/draw/sampler.h"

namespace bascule {
namespace {

// Behind kLatentsSlot: the latents after the first call, whose place serves for an output later; outputs.
constexpr int kTrialSlot = 1, kPndmSlots = 5;

// One output of the sum: how many kept outputs ago, and its weight.
struct Term {
  int slot;
  double weight;
};

// The step of a call to slot[call->next], from slot[from] with `alpha` to `next_alpha`.
void set_weights(SamplingCall* call, Prediction prediction, int from, double alpha, double next_alpha,
                 const std::vector<Term>& terms) {
  const double divisor = alpha * std::sqrt(1.0 - next_alpha) + std::sqrt(alpha * (1.0 - alpha) * next_alpha);
  const double factor = -(next_alpha - alpha) / divisor;
  // noise = sqrt(alpha) * v + sqrt(1 - alpha) * x
  const bool is_velocity = prediction == Prediction::kVelocity;
  const double of_output = is_velocity ? factor * std::sqrt(alpha) : factor;
  const double of_latents = is_velocity ? factor * std::sqrt(1.0 - alpha) : 0.0;
  call->weights.assign(kPndmSlots, 0.0);
  call->weights[static_cast<std::size_t>(from)] = std::sqrt(next_alpha / alpha) + of_latents;
  for (const Term& term : terms) call->weights[static_cast<std::size_t>(term.slot)] = of_output * term.weight;
}

// kept: the slots of the last outputs, the newest first; of the second call with the one that is dropped.
std::vector<Term> terms_of(const std::vector<int>& kept, bool is_second_call) {
  if (is_second_call) return {{kept[0], 1.0 / 2}, {kept[1], 1.0 / 2}};
  switch (kept.size()) {
    case 1: return {{kept[0], 1.0}};
    case 2: return {{kept[0], 3.0 / 2}, {kept[1], -1.0 / 2}};
    case 3: return {{kept[0], 23.0 / 12}, {kept[1], -16.0 / 12}, {kept[2], 5.0 / 12}};
    default: return {{kept[0], 55.0 / 24}, {kept[1], -59.0 / 24}, {kept[2], 37.0 / 24}, {kept[3], -9.0 / 24}};
  }
}

SamplingProgram pndm_program(const SamplerOptions& options, const NoiseSchedule& noise, int steps) {
  const std::int64_t stride = options.training_steps / steps;
  std::vector<std::int64_t> timesteps = whole_timesteps(options, steps);
  if (steps > 1) timesteps.insert(timesteps.begin() + 1, timesteps[1]);
  SamplingProgram program{kPndmSlots, 1.0, {}};
  std::vector<int> kept, unused = {kTrialSlot, 4, 3, 2};  // slots for outputs, the next one last
  for (std::size_t i = 0; i < timesteps.size(); ++i) {
    const bool is_second_call = i == 1;
    const std::int64_t from = is_second_call ? timesteps[i] + stride : timesteps[i];
    SamplingCall call{static_cast<double>(timesteps[i]), 1.0, kLatentsSlot, 0, kLatentsSlot, {}};
    if (i == 0 && timesteps.size() > 1) call.next = kTrialSlot;
    if (is_second_call) call.x = kTrialSlot;
    if (kept.size() == 4) {
      unused.push_back(kept.back());
      kept.pop_back();
    }
    call.output = unused.back();
    kept.insert(kept.begin(), call.output);
    set_weights(&call, options.prediction, kLatentsSlot, noise.alpha(from), noise.alpha(from - stride),
                terms_of(kept, is_second_call));
    if (is_second_call) {
      kept.erase(kept.begin());
    } else {
      unused.pop_back();
    }
    program.calls.push_back(call);
  }
  return program;
}

}  // namespace

extern const Sampler kPndm;
const Sampler kPndm = {
    "pndm", "PNDMScheduler", TimestepSpacing::kLeading, false, {{"skip_prk_steps", "true", "false"}}, pndm_program};

}  // namespace bascule
