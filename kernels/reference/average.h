// SPDX-License-Identifier: Apache-2.0
// Reference for average.h. See dropout.h on references.
#pragma once

#include <cstdint>

#include "kernels/average.h"

namespace bascule::reference {

template <typename T>
void average(T* average, const T* value, const Average& a) {
  for (std::int64_t i = 0; i < a.count; ++i) average[i] += T(static_cast<double>(a.share)) * (value[i] - average[i]);
}

}  // namespace bascule::reference
