// SPDX-License-Identifier: Apache-2.0
// How long each phase of a start took, from the beginning of the command to the first step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/runtime/start_work.h"

namespace bascule {

class StartTimes {
 public:
  // Ends the phase that began where the one before ended. name: lives on.
  void end(const char* name);
  void end(const char* name, const StartWork::Figures& work);  // and what its threads did

  std::int64_t began_ns() const { return began_ns_; }  // by monotonic_ns()

  // "start: 1.923 s: settings 0.002, data and plan 0.031, ...": the phases add up to the whole.
  std::string line() const;

 private:
  struct Phase {
    std::string name;
    std::int64_t end_ms;  // since the beginning
    std::string work;     // "touched 7,880 MiB in 3.1 s of a thread"
  };

  std::int64_t began_ns_ = monotonic_ns();
  std::vector<Phase> phases_;
};

}  // namespace bascule
