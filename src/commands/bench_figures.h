// SPDX-License-Identifier: Apache-2.0
// The figures of `bascule bench` and how they are printed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/bringup/machine_limits.h"
#include "src/commands/bench_threads.h"
#include "src/json/json.h"
#include "src/logs/readable.h"
#include "src/runtime/tape.h"
#include "src/seal/measured_steps.h"

namespace bascule {

// The output of every use of `bascule bench`: the machine measured, and the operations of measured tapes beside the
// limits of this machine, by kind and by layer.

// The time and work that nodes take together in one replay.
struct BenchTime {
  double seconds = 0.0;
  double flops = 0.0, bytes = 0.0;
  double limit_seconds = 0.0;  // seconds_at_limits() of each node
};

// One operation kind, all its places together.
struct BenchOperation {
  std::string name;  // "linear_backward"
  BenchTime time;
};

// Layers of one kind: their names differ in numbers alone.
struct BenchLayers {
  std::string name;  // "text_model.encoder.layer.*"
  std::size_t layers = 0;
  double forward_seconds = 0.0, backward_seconds = 0.0, again_seconds = 0.0;  // again: recomputation
  BenchTime time;
};

// nodes: their seconds are sums over so many replays, their work is that of one. The most expensive first.
std::vector<BenchOperation> operations_of(const std::vector<NodeTime>& nodes, double replays,
                                          const MachineLimits& limits);
// In forward order.
std::vector<BenchLayers> layers_of(const std::vector<NodeTime>& nodes, double replays, const MachineLimits& limits);

double limit_seconds_of(const std::vector<BenchOperation>& operations);

// Tables. heading: of the column of names; replay: "batch".
std::string operations_text(const std::string& heading, const std::string& replay,
                            const std::vector<BenchOperation>& operations);
std::string layers_text(const std::vector<BenchLayers>& layers);

Json operations_json(const std::vector<BenchOperation>& operations);
Json layers_json(const std::vector<BenchLayers>& layers);

// With an even number of values, the mean of the middle two. values: at least one.
double median_of(std::vector<double> values);

// A row of figures: its name, then value(column) as text for each column.
template <typename Column, typename Value>
void add_row(std::string* text, const std::string& name, const std::vector<Column>& columns, const Value& value) {
  std::string row = "  " + name;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const std::string figure = value(columns[c]);
    const std::size_t end = 26 + 16 * (c + 1);
    row.resize(std::max(row.size(), end - std::min(end, figure.size())), ' ');
    row += figure;
  }
  *text += row + "\n";
}

// The rows of figures that every column has: planned and resident memory.
template <typename Column>
void add_memory_rows(std::string* text, const std::vector<Column>& columns) {
  add_row(text, "memory planned", columns, [](const Column& c) { return readable_bytes(c.planned_bytes); });
  add_row(text, "memory resident", columns, [](const Column& c) { return readable_bytes(c.resident_bytes); });
}

// The subject of the measurement, and the machine.
struct BenchSubject {
  std::string settings_file, isa;
  bool is_bf16 = false;
  int threads = 1;
  MachineLimits limits;
};

// The two lines above the table: "bench: run.toml", "  float32, avx512, 2 threads; limits measured here: ...".
std::string subject_text(const BenchSubject& subject);
// The document with a line end: the last column's figures at the top level, all of them under "columns". columns: at
// least one.
std::string bench_document(const BenchSubject& subject, const char* measured, const Json& columns);

// The figures of `bascule bench`, and their output: a table for people, a JSON document for programs.

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
  std::vector<BenchOperation> operations;  // the most expensive first
  std::vector<BenchLayers> layers;         // in forward order
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

}  // namespace bascule
