// SPDX-License-Identifier: Apache-2.0
// The processes of the machine, as far as this one may see them, and the time that they have used. Before the seal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bascule {

struct ProcessTime {
  std::int64_t number = 0;
  std::string name;
  std::int64_t cpu_ms = 0;  // its own, and that of children which have ended
  std::int64_t parent = 0;
};

// root: as in read_machine().
std::vector<ProcessTime> read_process_times(const std::string& root = "");

// The process other than `own` that used most time between two readings `seconds` apart, as "yes (process 1234)"; "" if
// none used enough to be more than housekeeping. Children that began and ended meanwhile count as their parent: a
// compiler as the make that starts it.
std::string busiest_process(const std::vector<ProcessTime>& before, const std::vector<ProcessTime>& after,
                            std::int64_t own, double seconds);

}  // namespace bascule
