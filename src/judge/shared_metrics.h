// SPDX-License-Identifier: Apache-2.0
// Metrics that several judges give.
#pragma once

#include "src/logs/metric.h"

namespace bascule {

inline constexpr Metric kAccuracy = {"accuracy", "accuracy", 6, true, false, 1, 1};
// The exponential of the loss.
inline constexpr Metric kPerplexity = {"perplexity", "perplexity", 8, false, true, 2};

}  // namespace bascule
