// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

#include "src/judge/judge.h"

namespace bascule::test {

// A judge's metric, by its key.
inline const Metric& metric_of(const std::string& judge, const std::string& key) {
  for (const Metric& metric : judge_named(judge).metrics) {
    if (metric.key == key) return metric;
  }
  throw std::runtime_error(judge + " has no " + key);
}

}  // namespace bascule::test
