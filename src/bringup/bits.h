// SPDX-License-Identifier: Apache-2.0
// Whether every core computes the same bits: all cores compute the same products and kernels at the same time, and
// their results are compared by digest. Bits do not depend on the CPU, so the right ones are known beforehand.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/base/span.h"
#include "src/bringup/workbench.h"

namespace bascule {

// The digest of all results of one pass.
constexpr std::uint64_t kRecordedPassBits = 10993480473328580616u;

struct WrongCore {
  int core = 0;
  std::string problem;      // the first whose bits differ: "layer_norm_forward R=67 C=128"
  std::int64_t passes = 0;  // in which it computed something wrong
};

struct BitsResult {
  std::int64_t passes = 0;  // of each core
  double seconds = 0.0;
  std::uint64_t digest = 0;       // of the results that were taken for right in the last pass
  std::vector<WrongCore> wrong;   // by core
  bool none_as_recorded = false;  // all cores agree on other bits than the recorded ones
};

// Called with a result before it is digested; for tests, which change it.
using SeeResult = std::function<void(int core, const std::string& problem, Span<float> result)>;

// One pass at least, then passes until so many seconds are over.
BitsResult compare_bits(Workbench& bench, double seconds, const SeeResult& see = {});

}  // namespace bascule
