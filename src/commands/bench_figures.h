// SPDX-License-Identifier: Apache-2.0
// The figures of `bascule bench`, and their output: a table for people, a JSON document for programs. Operations of
// measured tapes stand beside the limits of this machine, by kind and by layer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/readable.h"
#include "src/bringup/machine_limits.h"
#include "src/bringup/workbench.h"
#include "src/json/json.h"
#include "src/json/members.h"
#include "src/record/recorded_draw_run.h"
#include "src/runtime/tape.h"
#include "src/seal/measured_steps.h"
#include "src/settings/settings.h"

namespace bascule {

// Layers of one kind: their names differ in numbers alone, as "text_model.encoder.layer.*".
struct BenchLayers : OperationTime {
  std::size_t layers = 0;
  double forward_seconds = 0.0, backward_seconds = 0.0, again_seconds = 0.0;  // again: recomputation
};

// The subject of the measurement, and the machine.
struct BenchSubject {
  std::string settings_file, isa;
  bool is_bf16 = false;
  int threads = 1;
  MachineLimits limits;
};

// Simulated threads (runtime/simulation.h), of `bench --threads` and `plan --threads`: the machine that is assumed, and
// where the threads lose time.

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

// How fast simulated threads read and write memory together.
struct MemoryRate {
  double gigabytes_per_second = 0.0;
  // The rate of one thread, if both rates were measured: an operation that one thread does faster has some of its bytes
  // in caches, and takes only the others from memory. 0: an assumed machine, on which all bytes come from memory.
  double one_thread = 0.0;
};

// Makes operations, and the update, as slow as memory is, where it is slower than they are. batches: of a step;
// update_bytes: that an update reads and writes, 0 where nothing is trained.
void limit_by_memory(MeasuredSteps* steps, double batches, double update_bytes, int threads, const MemoryRate& memory);
void limit_by_memory(MeasuredStage* stage, const MemoryRate& memory);
// Where compute threads have all cores, the loader's workers take their share of each from them.
void share_cores_with_loader(MeasuredSteps* steps, int threads);
// By kind, the largest first. nodes: their seconds are sums over so many replays, after limit_by_memory().
std::vector<LostTime> lost_time(const std::vector<NodeTime>& nodes, double replays, int threads);

// "64 threads, simulated: 12.30 samples/s, 85.0 % of the ceiling, 14.50". unit: "samples/s".
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

struct BenchColumn {
  std::string name;  // "32 samples"; of an engine and its workers "host, 2"
  std::int64_t workers = 0;
  int threads = 1;
  std::vector<LostTime> lost;                                  // by threads that are simulated; empty: they are not
  std::int64_t batch = 0, image_size = 0, max_seq_length = 0;  // 0: no picture, no text
  std::string engine;
  std::vector<double> step_seconds;
  std::vector<double> losses;                    // of each update, before it; empty where none is trained
  double median = 0.0, least = 0.0, most = 0.0;  // samples/s of a step
  double tokens = 0.0;                           // generated a second, median; 0: none
  MeasuredDecoding decoding;
  double ceiling = 0.0;             // samples/s of a mean step if every operation ran at the limits
  double phases[kStepPhases] = {};  // share of the measured time
  double could_deliver = 0.0;       // samples/s of the loader
  double ring_occupancy = 0.0;
  std::size_t planned_bytes = 0, resident_bytes = 0;
  std::int64_t trained_parameters = 0;
  // Empty where machine.step_seconds waits instead.
  std::vector<OperationTime> operations;  // of a replay, the most expensive first
  std::vector<BenchLayers> layers;        // in forward order
};

struct Bench : BenchSubject {
  bool trains = false;         // a step is an update, otherwise a batch of the evaluation
  bool generates = false;      // whose texts are generated
  bool names_engines = false;  // the columns' names
  std::vector<BenchColumn> columns;
};

BenchColumn figures_of(const MeasuredSteps& steps, const RecordedRun& run, const MachineLimits& limits);

std::string bench_text(const Bench& bench);
std::string bench_json(const Bench& bench);
// Of simulated threads, for `plan --threads`: how fast they are, and where they lose time.
std::string simulated_text(const Bench& bench);
Json column_json(const BenchColumn& column);

// `bascule bench FILE` for a run that draws: its three stages, each beside the limits of this machine.

// One graph's replays.
struct BenchStage {
  std::vector<double> seconds;  // of each measured replay
  std::vector<OperationTime> operations;
  std::vector<BenchLayers> layers;
  std::vector<LostTime> lost;  // by threads that are simulated; empty: they are not

  double median() const { return median_of(seconds); }
  double limit_seconds() const;  // if every operation ran at the limits
  double flops() const;
};

struct BenchDrawingColumn {
  std::string name;  // "8 pictures", "768 pixels", "64 simulated"
  int threads = 1;
  std::int64_t batch = 0, height = 0, width = 0;  // pictures at a time, pixels
  std::int64_t calls = 0;                         // of the UNet for each picture
  BenchStage encode, call, decode;                // of a prompt; of a batch, once; of a picture
  std::size_t planned_bytes = 0, resident_bytes = 0;

  // For a whole batch: all calls, and the decoding of each picture. Prompts are encoded once a run.
  double pictures_per_second() const;
  double ceiling() const;  // pictures/s at the limits
};

struct BenchDrawing : BenchSubject {
  std::vector<BenchDrawingColumn> columns;
};

// memory: of the run's threads, where they were simulated: the stages become as slow as it is.
BenchDrawingColumn drawing_figures_of(const MeasuredDrawing& measured, const RecordedDrawRun& run,
                                      const MachineLimits& limits, const MemoryRate* memory = nullptr);
std::string bench_text(const BenchDrawing& bench);
std::string bench_json(const BenchDrawing& bench);
std::string simulated_text(const BenchDrawing& bench);
Json column_json(const BenchDrawingColumn& column);

}  // namespace bascule
