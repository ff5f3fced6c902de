// SPDX-License-Identifier: Apache-2.0
// A request to end training early and to finish the run: `bascule stop RUN` leaves a file in the run's folder, where
// the first rank looks after every update. It stays until the run is finished: a run that is killed before it saw the
// request ends early when it goes on.
#pragma once

#include <string>

#include "src/base/descriptor.h"

namespace bascule {

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
