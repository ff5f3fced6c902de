// SPDX-License-Identifier: Apache-2.0
// Agreements of the ranks within the loop, and the request to stop.
#pragma once

#include <string>
#include <vector>

#include "src/base/descriptor.h"
#include "src/base/span.h"
#include "src/base/status.h"
#include "src/distributed/group.h"

namespace bascule {

// Agreement of all ranks of a run at the same place of the loop: its status, a few sums, and whether to stop. So they
// take every branch alike. In a run of one process it agrees with itself.

class RankAgreement {
 public:
  static constexpr std::size_t kMostSums = 3;

  explicit RankAgreement(Group& group);  // before the seal

  // By all ranks together, after the seal. sums: own parts, and then those of all ranks added in rank order. signal:
  // this rank's, or null, and then that of the first rank that has one. Returns own where that is not ok; else
  // kRankFailed where another rank's is not, or that of the first rank that was stopped by a signal, or that knows
  // which text's vector is not finite.
  Status reach(const Status& own, Span<double> sums = {}, int* signal = nullptr) noexcept;

 private:
  Group& group_;
  std::vector<double> all_;
};

// A request to end training early and to finish the run: `bascule stop RUN` leaves a file in the run's folder, where
// the first rank looks after every update. It stays until the run is finished: a run that is killed before it saw the
// request ends early when it goes on.

inline constexpr char kStopRequestFile[] = ".bascule-stop";

class StopRequest {
 public:
  StopRequest() = default;  // never made: for ranks other than the first
  // Before the seal. Throws Error{kDisk}.
  explicit StopRequest(const std::string& folder);

  // Sealed: one system call.
  bool is_made() const noexcept;

 private:
  Descriptor folder_;
};

// Before the seal, or after it has ended. Throw Error{kDisk}.
void make_stop_request(const std::string& folder);
void remove_stop_request(const std::string& folder);

}  // namespace bascule
