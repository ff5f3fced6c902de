// SPDX-License-Identifier: Apache-2.0
// One reference case: its files, our run of it, and the judgement. Layout of a case: tests/data/goldens/README.md.
#pragma once

#include <string>
#include <vector>

#include "kernels/isa.h"
#include "src/json/json.h"

namespace bascule {

struct VerifiedTensor {
  std::string name;
  double relative_l2 = 0.0;  // of ours against the truth; for slices that are zero in exact arithmetic: the norm
  double reference_relative_l2 = 0.0;  // of the reference's float32 run
  double limit = 0.0;
  bool is_norm = false;
  bool passed() const { return relative_l2 <= limit; }  // false for NaN
};

struct VerifiedCase {
  std::string name;
  std::vector<VerifiedTensor> tensors;
  bool passed() const;
};

VerifiedCase verify_case(const std::string& folder, Isa isa, int threads);

}  // namespace bascule
