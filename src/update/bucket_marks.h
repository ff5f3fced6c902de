// SPDX-License-Identifier: Apache-2.0
// When a bucket of gradients may be summed over the ranks while backward still runs: after how many operations of the
// tape every gradient that lies in it is final. Before the seal.
#pragma once

#include <cstdint>
#include <vector>

#include "src/graph/parameters.h"

namespace bascule {

// final_steps: of each parameter, Tape::steps_until_final(). ends: where each bucket ends in the trained range, in
// elements, ascending. A bucket waits for the gradients before it too, so that the marks never fall.
std::vector<std::int64_t> bucket_marks(const std::vector<std::int64_t>& final_steps, const ParameterLayout& layout,
                                       const std::vector<std::int64_t>& ends);

}  // namespace bascule
