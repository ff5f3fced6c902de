// SPDX-License-Identifier: Apache-2.0
// Facts of a recorded run, for the marker in its folder and for its report. Not sealed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "src/graph/parameters.h"
#include "src/logs/named_text.h"
#include "src/record/recorded_run.h"

namespace bascule {

// Numbers, not tensors.
struct ParameterCount {
  std::int64_t all = 0, trained = 0;
};

ParameterCount count_parameters(const ParameterSet& parameters);

// "131,072 parameters, 65,536 of them trained".
std::string parameters_text(const ParameterSet& parameters);

// Build, ISA, engine, seed and digests: what is needed to get the same bits.
std::vector<NamedText> provenance_of(const RecordedRun& run, Isa isa);

}  // namespace bascule
