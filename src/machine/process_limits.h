// SPDX-License-Identifier: Apache-2.0
// The limits of this process, and the other processes of the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace bascule {

// The memory, address space and processor time that the system grants this process, by the machine, the control groups
// above the process (versions 1 and 2, every level) and the limits of the process itself. Before the seal.

constexpr std::size_t kUnlimitedBytes = std::numeric_limits<std::size_t>::max();

struct ProcessLimits {
  // For all processes of a run on this machine together: the least of the machine's memory and of every control group's
  // limit; and whose it is, "this machine" or the file that holds it.
  std::size_t memory_bytes = kUnlimitedBytes;
  std::string memory_owner = "this machine";
  // For each process: RLIMIT_AS, RLIMIT_DATA and the stack of a new thread; and its present use of the first two.
  std::size_t address_bytes = kUnlimitedBytes;
  std::size_t data_bytes = kUnlimitedBytes;
  std::size_t stack_bytes = std::size_t{8} << 20;
  std::size_t address_bytes_used = 0;
  std::size_t data_bytes_used = 0;
  // Processors' worth of time that the control groups allow all processes together: 0.6, say.
  double processors = std::numeric_limits<double>::infinity();
};

// root: a folder in which /proc and /sys lie, for tests; "" for the system's own. A limit that cannot be read does not
// apply.
ProcessLimits read_process_limits(const std::string& root = "");

// Threads that a process uses without being told how many: all its cores, but no more than whole processors' worth of
// its share of the time. A thread too many would use up the time with waiting, then all of them stand still.
int threads_within(const ProcessLimits& limits, int cores, int processes);

// The control groups above this process, of both versions: where their folders are. For src/machine alone.

struct GroupFolder {
  std::string folder;  // without the root
  bool is_version_2 = false;
  std::string controllers;  // of the hierarchy, version 1: "cpu,cpuacct"; "" for version 2, where a folder may have any

  bool has(const std::string& controller) const;
};

// Every hierarchy that is mounted, from this process's group upwards as far as it is mounted here.
std::vector<GroupFolder> group_folders(const std::string& root);

// The processes of the machine, as far as this one may see them, and the time that they have used. Before the seal.

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
