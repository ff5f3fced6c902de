// SPDX-License-Identifier: Apache-2.0
// `bascule bench --threads` and `plan --threads`, where threads are simulated (runtime/simulation.h): the machine that
// is assumed, and where the threads lose time.
#pragma once

#include <string>
#include <vector>

#include "src/bringup/machine_limits.h"
#include "src/commands/commands.h"
#include "src/json/json.h"
#include "src/runtime/tape.h"
#include "src/seal/measured_steps.h"
#include "src/settings/settings.h"

namespace bascule {

// A server with a core for each thread, that multiplies as `one_thread` does, and sockets of 32 cores with 300 GB/s
// each; a thread alone has what it has here.
MachineLimits limits_of_server(const MachineLimits& one_thread, int threads);

// What all operations of one kind lose in a mean replay, in seconds: more than their work divided by the threads.
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
void limit_by_memory(MeasuredStage* stage, double gigabytes_per_second);
// Where compute threads have all cores, the loader's workers take their share of each from them.
void share_cores_with_loader(MeasuredSteps* steps, int threads);
// By kind, the largest first. nodes: their seconds are sums over so many replays, after limit_by_memory().
std::vector<LostTime> lost_time(const std::vector<NodeTime>& nodes, double replays, int threads);

// "64 threads, simulated: 12.3 samples/s, 85.0 % of the ceiling, 14.5". unit: "samples/s".
std::string simulated_speed_text(int threads, double rate, double ceiling, const char* unit);
// A table, and what is assumed; empty for none. replay: "batch".
std::string lost_text(const std::vector<LostTime>& lost, const char* replay, int threads);
Json lost_json(const std::vector<LostTime>& lost);

// The answer of `plan --threads`: text below the plan, and the column of `bench --json` for so many simulated threads.
struct SimulatedSpeed {
  std::string text;
  Json column;
};
// Measures a few steps, or replays of a run that draws, as `bench --simulate` does. Throws Error.
SimulatedSpeed simulate_speed(const Settings& settings, int threads);

}  // namespace bascule
