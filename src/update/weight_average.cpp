// SPDX-License-Identifier: Apache-2.0
#include "src/update/weight_average.h"

#include <algorithm>

namespace bascule {

void average_weights(const KernelTable& kernels, float* averages, const float* values, std::int64_t count,
                     double share) noexcept {
  if (share == 1.0) {  // in floating point the formula would not copy exactly
    std::copy_n(values, count, averages);
  } else {
    kernels.average({averages, values, count, static_cast<float>(share)});
  }
}

}  // namespace bascule
