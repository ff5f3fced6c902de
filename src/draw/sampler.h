// SPDX-License-Identifier: Apache-2.0
// One sampler: what it is called, what it takes for keys that a file lacks, and its program. Each is defined in a file
// of its own and listed in samplers.cpp.
#pragma once

#include <vector>

#include "src/draw/noise_schedule.h"
#include "src/draw/sampler_options.h"
#include "src/draw/sampling_program.h"

namespace bascule {

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
