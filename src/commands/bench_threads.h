// SPDX-License-Identifier: Apache-2.0
// `bascule bench --threads` for more threads than there are cores: the machine that is assumed, and where simulated
// threads (runtime/threads.h) lose time.
#pragma once

#include <string>
#include <vector>

#include "src/bringup/machine_limits.h"
#include "src/json/json.h"
#include "src/seal/measured_steps.h"

namespace bascule {

// A server with a core for each thread, that multiplies as `one_thread` does, and sockets of 32 cores with 300 GB/s
// each.
MachineLimits limits_of_server(const MachineLimits& one_thread, int threads);

// What all operations of one kind lose in a mean step, in seconds: more than their work divided by the threads.
struct LostTime {
  std::string name;         // "linear_backward"
  double seconds = 0.0;     // all of it
  double few_tasks = 0.0;   // in steps of the tape with fewer tasks than threads
  double last_tasks = 0.0;  // threads that are done wait for the last ones
  double barrier = 0.0;
  double memory = 0.0;  // all threads together would read and write faster than memory
};

// Makes operations, and the update, as slow as memory is, where it is slower than they are. batches: of a step;
// update_bytes: that an update reads and writes, 0 where nothing is trained.
void limit_by_memory(MeasuredSteps* steps, double batches, double update_bytes, double gigabytes_per_second);
// By kind, the largest first. After limit_by_memory().
std::vector<LostTime> lost_time(const MeasuredSteps& steps, int threads);

std::string lost_text(const std::vector<LostTime>& lost, int threads);  // empty for none
Json lost_json(const std::vector<LostTime>& lost);

}  // namespace bascule
