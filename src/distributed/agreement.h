// SPDX-License-Identifier: Apache-2.0
// Agreement of all ranks of a run at the same place of the loop: its status, a few sums, and whether to stop. So they
// take every branch alike. In a run of one process it agrees with itself.
#pragma once

#include <vector>

#include "src/base/span.h"
#include "src/base/status.h"
#include "src/distributed/group.h"

namespace bascule {

class RankAgreement {
 public:
  static constexpr std::size_t kMostSums = 3;

  explicit RankAgreement(Group& group);  // before the seal

  // By all ranks together, after the seal. sums: own parts, and then those of all ranks added in rank order. signal:
  // this rank's, or null, and then that of the first rank that has one. Returns own where that is not ok; else
  // kRankFailed where another rank's is not, or kStopped where one was stopped by a signal.
  Status reach(const Status& own, Span<double> sums = {}, int* signal = nullptr) noexcept;

 private:
  Group& group_;
  std::vector<double> all_;
};

}  // namespace bascule
