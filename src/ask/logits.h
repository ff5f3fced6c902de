// SPDX-License-Identifier: Apache-2.0
// The logits that an asked model computes, and the best of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/models/model.h"

namespace bascule {

// The tensor that the reference calls "logits", of a graph for Use::kReference. Without one: Error kInternal.
Tensor reference_logits(const Recording& recording);

// Throws Error kData if one of them is NaN or an infinity.
void refuse_not_finite_logits(const float* logits, std::int64_t count, const std::string& folder);

struct TokenOrClass {
  std::int64_t id = 0;
  double probability = 0.0;  // softmax, summed in float64
};
// The `top` most probable of `count`, best first; equal ones by id.
std::vector<TokenOrClass> most_probable(const float* logits, std::int64_t count, std::size_t top);

// "     12.3 %  cat\n", with two significant digits at least: "   0.0042 %". The name as printable_line() has it.
std::string shown_guess(double probability, const std::string& name);

}  // namespace bascule
