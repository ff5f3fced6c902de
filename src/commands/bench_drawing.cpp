// SPDX-License-Identifier: Apache-2.0
#include "src/commands/bench_figures.h"

#include <algorithm>

#include "src/base/error.h"

namespace bascule {
namespace {

// memory: of the threads, where they are simulated; else null.
BenchStage stage_of(MeasuredStage measured, const MachineLimits& limits, int threads, const MemoryRate* memory) {
  const double replays = static_cast<double>(measured.replays);
  if (memory != nullptr) limit_by_memory(&measured, *memory);
  const std::vector<NodeTime> nodes = of_one_replay(measured.nodes, replays);
  return {measured.seconds, times_by_kind(nodes, 1.0, &limits), layers_of(nodes, limits),
          memory != nullptr ? lost_time(measured.nodes, replays, threads) : std::vector<LostTime>()};
}

// Pictures/s of a batch whose call and whose decoding take so long.
double rate(const BenchDrawingColumn& column, double call_seconds, double decode_seconds) {
  const double batch = static_cast<double>(column.batch);
  return batch / (static_cast<double>(column.calls) * call_seconds + batch * decode_seconds);
}

using Stage = BenchStage BenchDrawingColumn::*;

void add_stage(std::string* text, const BenchDrawing& bench, const std::string& name, Stage stage) {
  const std::vector<BenchDrawingColumn>& columns = bench.columns;
  add_row(text, name + ", median", columns,
          [stage](const BenchDrawingColumn& c) { return readable_seconds((c.*stage).median()); });
  add_row(text, "  slowest", columns, [stage](const BenchDrawingColumn& c) {
    const std::vector<double>& seconds = (c.*stage).seconds;
    return readable_seconds(*std::max_element(seconds.begin(), seconds.end()));
  });
  add_row(text, "  fastest", columns, [stage](const BenchDrawingColumn& c) {
    const std::vector<double>& seconds = (c.*stage).seconds;
    return readable_seconds(*std::min_element(seconds.begin(), seconds.end()));
  });
  add_row(text, "  GFLOP/s", columns, [stage](const BenchDrawingColumn& c) {
    return formatted("%.1f", (c.*stage).flops() * 1e-9 / (c.*stage).median());
  });
  add_row(text, "  reached", columns, [stage](const BenchDrawingColumn& c) {
    return formatted("%.1f %%", 100.0 * (c.*stage).limit_seconds() / (c.*stage).median());
  });
}

Json stage_json(const BenchStage& stage) {
  return {{"seconds", stage.seconds},
          {"median_seconds", stage.median()},
          {"limit_seconds", stage.limit_seconds()},
          {"flops", stage.flops()},
          {"operations", written(stage.operations)},
          {"layers", written(stage.layers)},
          {"lost", lost_json(stage.lost)}};
}

}  // namespace

Json column_json(const BenchDrawingColumn& column) {
  return {{"threads", column.threads},
          {"simulated", !column.call.lost.empty()},
          {"batch", column.batch},
          {"height", column.height},
          {"width", column.width},
          {"calls_per_picture", column.calls},
          {"pictures_per_second", column.pictures_per_second()},
          {"ceiling_pictures_per_second", column.ceiling()},
          {"encode", stage_json(column.encode)},
          {"call", stage_json(column.call)},
          {"decode", stage_json(column.decode)},
          {"planned_bytes", column.planned_bytes},
          {"resident_bytes", column.resident_bytes}};
}

double BenchStage::flops() const {
  double sum = 0.0;
  for (const OperationTime& operation : operations) sum += operation.flops;
  return sum;
}

double BenchDrawingColumn::pictures_per_second() const { return rate(*this, call.median(), decode.median()); }
double BenchDrawingColumn::ceiling() const { return rate(*this, call.limit_seconds(), decode.limit_seconds()); }

BenchDrawingColumn drawing_figures_of(const MeasuredDrawing& measured, const RecordedDrawRun& run,
                                      const MachineLimits& limits, const MemoryRate* memory) {
  BenchDrawingColumn column;
  column.threads = run.threads;
  column.batch = run.options.batch;
  column.height = run.options.height;
  column.width = run.options.width;
  column.calls = static_cast<std::int64_t>(run.program.calls.size());
  column.encode = stage_of(measured.encode, limits, run.threads, memory);
  column.call = stage_of(measured.call, limits, run.threads, memory);
  column.decode = stage_of(measured.decode, limits, run.threads, memory);
  column.planned_bytes = run.plan.peak_bytes();
  column.resident_bytes = measured.resident_bytes;
  return column;
}

std::string bench_drawing_text(const BenchDrawing& bench) {
  using Measured = BenchDrawingColumn;
  const std::vector<Measured>& columns = bench.columns;
  std::string text = subject_text(bench);
  add_row(&text, "", columns, [](const Measured& c) { return c.name; });
  add_row(&text, "pictures/s", columns, [](const Measured& c) { return formatted("%.4f", c.pictures_per_second()); });
  add_row(&text, "ceiling, pictures/s", columns, [](const Measured& c) { return formatted("%.4f", c.ceiling()); });
  add_row(&text, "  reached", columns,
          [](const Measured& c) { return formatted("%.1f %%", 100.0 * c.pictures_per_second() / c.ceiling()); });
  add_row(&text, "seconds a picture", columns,
          [](const Measured& c) { return readable_seconds(1.0 / c.pictures_per_second()); });
  add_row(&text, "calls of the UNet", columns, [](const Measured& c) { return std::to_string(c.calls); });
  add_stage(&text, bench, "call", &Measured::call);
  add_stage(&text, bench, "decoding", &Measured::decode);
  add_stage(&text, bench, "encoding", &Measured::encode);
  add_memory_rows(&text, columns);
  text +=
      "  call: of the UNet for all pictures of a batch; decoding: of one picture; encoding: of one prompt.\n"
      "  A picture takes its share of all calls, and its decoding. Prompts are encoded once a run and not counted.\n";
  const Measured& last = columns.back();
  text += operations_text("operation of a call", "call", last.call.operations);
  text += operations_text("operation of decoding", "picture", last.decode.operations);
  text += operations_text("operation of encoding", "prompt", last.encode.operations);
  text +=
      "  limit and ceiling: arithmetic as fast as matrix products, memory as fast as a copy outside the caches;\n"
      "  an operation on cached data can be faster\n";
  return text + lost_text(last.call.lost, "call", last.threads);
}

std::string simulated_text(const BenchDrawing& bench) {
  const BenchDrawingColumn& column = bench.columns.back();
  return simulated_speed_text(column.threads, column.pictures_per_second(), column.ceiling(), "pictures/s") +
         lost_text(column.call.lost, "call", column.threads);
}

std::string bench_drawing_json(const BenchDrawing& bench) {
  Json columns = Json::array();
  for (const BenchDrawingColumn& column : bench.columns) columns.push_back(column_json(column));
  return bench_document(bench, "drawing", columns);
}

}  // namespace bascule
