// SPDX-License-Identifier: Apache-2.0
#include "src/generate/samplers.h"

#include <cmath>

#include "src/base/check.h"
#include "src/base/error.h"

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

extern const Sampler kDdim, kPndm, kEuler;  // each in its own file

const std::vector<const Sampler*>& samplers() {
  static const std::vector<const Sampler*> all = {&kDdim, &kPndm, &kEuler};
  return all;
}

// DDIM without added noise (eta 0): from timestep t to t - floor(training_steps / steps),
//   x <- sqrt(alpha') * x0 + sqrt(1 - alpha') * noise,
// where x0 and noise are what the output says of x. Source: Song, Meng, Ermon 2021, equation 12; diffusers'
// DDIMScheduler.

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

// Euler's method on the ratio sigma of noise to picture, from which latents are scaled for the model:
//   x <- x + (x - x0) / sigma * (next_sigma - sigma),
// where x0 is what the output says of x; the last step ends at sigma 0. Source: Karras, Aittala, Aila, Laine 2022,
// algorithm 2 without churn; diffusers' EulerDiscreteScheduler.

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

// PNDM without Runge-Kutta steps (PLMS): a linear multistep method over the last four outputs. From alpha a to alpha b,
//   x <- sqrt(b / a) * x - (b - a) * noise / (a * sqrt(1 - b) + sqrt(a * (1 - a) * b)),
// where noise is a weighted sum of outputs. The second timestep comes twice: the first call is a plain step, the second
// repeats it from the same latents with the mean of both outputs, and its own output is dropped. Source: Liu, Ren, Lin,
// Zhao 2022, equations 9 and 12; diffusers' PNDMScheduler with skip_prk_steps.

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
