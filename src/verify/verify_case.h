// SPDX-License-Identifier: Apache-2.0
// One reference case: its files, our run of it, and the judgement. Layout of a case: tests/data/goldens/README.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/table.h"
#include "src/json/json.h"
#include "src/settings/settings.h"
#include "src/verify/verify_files.h"

namespace bascule {

enum class Measure {
  kRelativeL2,      // of the difference to the truth
  kOneMinusCosine,  // of the angle to the truth, in bf16
  kNorm,            // of a slice that is zero in exact arithmetic, a distance, or a count of faults
};

struct VerifiedTensor {
  std::string name;
  Measure measure = Measure::kRelativeL2;
  double error = 0.0;      // ours
  double reference = 0.0;  // that of the reference's run in float32, or in bf16; none for kNorm
  double limit = 0.0;
  bool passed() const { return error <= limit; }  // false for NaN
};

struct VerifiedCase {
  std::string name;
  std::vector<VerifiedTensor> tensors;
  std::vector<NotCompared> not_compared;
  std::int64_t bf16_draws = 0;  // in bf16: the reference's errors are the worst of so many runs of autocast
  std::string unknown = {};     // why nothing is compared: this program lacks the family or head of the case
  // Whether something was compared, and all of it is within its limit.
  bool passed() const;
};

// In float32: outputs, gradients and the training run, as far as the case holds them. In bf16: loss and gradients.
// Throws Error.
VerifiedCase verify_case(const std::string& folder, Precision precision, const KernelTable& kernels, int threads);

}  // namespace bascule
