// SPDX-License-Identifier: Apache-2.0
#include "src/commands/bench_figures.h"

#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "firmware_shims/media_engine.h"
#include "src/base/error.h"
#include "src/graph/graph.h"
#include "src/runtime/threads.h"
#include "src/update/optimizer.h"

namespace bascule {

constexpr auto members_of(const OperationTime*) {
  using T = OperationTime;
  return std::make_tuple(named("name", &T::name), named("seconds", &T::seconds), named("flops", &T::flops),
                         named("bytes", &T::bytes), named("limit_seconds", &T::limit_seconds));
}
constexpr auto members_of(const BenchLayers*) {
  using L = BenchLayers;
  return std::tuple_cat(
      members_of(static_cast<const OperationTime*>(nullptr)),
      std::make_tuple(named("layers", &L::layers), named("forward_seconds", &L::forward_seconds),
                      named("backward_seconds", &L::backward_seconds), named("recomputed_seconds", &L::again_seconds)));
}
constexpr auto members_of(const BenchColumn*) {
  using C = BenchColumn;
  return std::make_tuple(
      named("threads", &C::threads), named("workers", &C::workers), named("batch", &C::batch),
      named("image_size", &C::image_size), named("max_seq_length", &C::max_seq_length),
      named("media_engine", &C::engine), named("ceiling_samples_per_second", &C::ceiling),
      named("step_seconds", &C::step_seconds), named("losses", &C::losses),
      named("loader_samples_per_second", &C::could_deliver), named("ring_occupancy", &C::ring_occupancy),
      named("planned_bytes", &C::planned_bytes), named("trained_parameters", &C::trained_parameters),
      named("resident_bytes", &C::resident_bytes), named("operations", &C::operations), named("layers", &C::layers));
}

namespace {

const char* precision_word(const BenchSubject& subject) { return subject.is_bf16 ? "bf16" : "float32"; }

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

// nodes: their seconds are sums over so many replays.
std::vector<NodeTime> of_one_replay(std::vector<NodeTime> nodes, double replays) {
  for (NodeTime& node : nodes) node.seconds /= replays;
  return nodes;
}

// Of one replay, in forward order.
std::vector<BenchLayers> layers_of(const std::vector<NodeTime>& nodes, const MachineLimits& limits) {
  std::vector<BenchLayers> layers;
  std::map<std::string, std::size_t> place;  // by name
  std::set<std::string> scopes;
  for (const NodeTime& node : nodes) {
    const auto [found, is_new] = place.emplace(layer_kind(node.scope), layers.size());
    if (is_new) layers.emplace_back().name = found->first;
    BenchLayers& kind = layers[found->second];
    if (scopes.insert(node.scope).second) ++kind.layers;
    (node.again ? kind.again_seconds : node.backward ? kind.backward_seconds : kind.forward_seconds) += node.seconds;
    add_node(&kind, node, 1.0, &limits);
  }
  return layers;
}

double limit_seconds_of(const std::vector<OperationTime>& operations) {
  return std::accumulate(operations.begin(), operations.end(), 0.0,
                         [](double sum, const OperationTime& one) { return sum + one.limit_seconds; });
}

// heading: of the column of names; replay: "batch".
std::string operations_text(const std::string& heading, const std::string& replay,
                            const std::vector<OperationTime>& operations) {
  std::string text = formatted("\n  %-31.31s%12s    share   GFLOP/s      GB/s   of its limit\n", heading.c_str(),
                               ("ms / " + replay).c_str());
  double all = 0.0;
  for (const OperationTime& one : operations) all += one.seconds;
  for (const OperationTime& one : operations)
    text += formatted("  %-32.32s%11.3f  %5.1f %%  %8.1f  %8.1f        %5.1f %%\n", one.name.c_str(), one.seconds * 1e3,
                      100.0 * one.seconds / all, one.flops * 1e-9 / one.seconds, one.bytes * 1e-9 / one.seconds,
                      100.0 * one.limit_seconds / one.seconds);
  return text;
}

std::string layers_text(const std::vector<BenchLayers>& layers) {
  bool is_repeated = false;
  double all = 0.0;
  std::vector<std::string> names = {"layers, ms / batch"};
  std::size_t width = 0;
  for (const BenchLayers& kind : layers) {
    all += kind.seconds;
    is_repeated = is_repeated || kind.again_seconds > 0.0;
    names.push_back(kind.layers > 1 ? std::to_string(kind.layers) + " x " + kind.name : kind.name);
    width = std::max(width, names.back().size());
  }
  for (std::string& name : names) name.resize(std::max(width, name.size()), ' ');
  std::string text = "\n  " + names[0] + "    forward   backward" + (is_repeated ? " recomputed" : "");
  text += "    share   of their limit\n";
  for (std::size_t k = 0; k < layers.size(); ++k) {
    const BenchLayers& kind = layers[k];
    text += "  " + names[k + 1] + formatted("%11.3f%11.3f", kind.forward_seconds * 1e3, kind.backward_seconds * 1e3) +
            (is_repeated ? formatted("%11.3f", kind.again_seconds * 1e3) : "") +
            formatted("  %5.1f %%          %5.1f %%\n", 100.0 * kind.seconds / all,
                      100.0 * kind.limit_seconds / kind.seconds);
  }
  return text;
}

// The two lines above the table: "bench: run.toml", "  float32, avx512, 2 threads; limits measured here: ...".
std::string subject_text(const BenchSubject& subject) {
  const MachineLimits& limits = subject.limits;
  std::string text = "bench: " + subject.settings_file + "\n  " + precision_word(subject) + ", " + subject.isa + ", " +
                     count_of(subject.threads, "thread") + "; limits measured here: ";
  if (subject.is_bf16) text += formatted("%.0f GFLOP/s for matrix products in bf16, ", limits.bf16_gflops_per_second);
  text += formatted("%.0f GFLOP/s", limits.float32_gflops_per_second);
  text += subject.is_bf16 ? " in float32, " : " for matrix products, ";
  return text + formatted("%.1f GB/s for copying", limits.gigabytes_per_second) +
         formatted(", %.1f GB/s for reading\n\n", limits.read_gigabytes_per_second);
}

// The document with a line end: the last column's figures at the top level, all of them under "columns".
template <typename Column>
std::string bench_document(const BenchSubject& subject, const char* measured, const std::vector<Column>& all) {
  Json columns = Json::array();
  for (const Column& column : all) columns.push_back(column_json(column));
  Json document = columns[columns.size() - 1];
  document["measured"] = measured;
  document["isa"] = subject.isa;
  document["threads"] = subject.threads;
  document["precision"] = precision_word(subject);
  Json limits = {{"float32_gflops_per_second", subject.limits.float32_gflops_per_second},
                 {"gigabytes_per_second", subject.limits.gigabytes_per_second},
                 {"read_gigabytes_per_second", subject.limits.read_gigabytes_per_second}};
  if (subject.is_bf16) limits["bf16_gflops_per_second"] = subject.limits.bf16_gflops_per_second;
  document["limits"] = limits;
  document["columns"] = columns;
  return json_text(document, 2) + "\n";
}

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

Json column_json(const BenchColumn& column) {
  Json json = written(column), phases = Json::object();
  for (int phase = 0; phase < kStepPhases; ++phase)
    phases[step_phase_name(static_cast<StepPhase>(phase))] = column.phases[phase];
  json["phases"] = phases;
  json["simulated"] = !column.lost.empty();
  json["lost"] = lost_json(column.lost);
  json["samples_per_second"] = {{"median", column.median}, {"min", column.least}, {"max", column.most}};
  json["tokens_per_second"] = column.tokens > 0.0 ? Json(column.tokens) : Json();
  json["decoding"] = Json();
  if (column.decoding.bytes > 0.0)
    json["decoding"] = {{"seconds", column.decoding.seconds}, {"bytes", column.decoding.bytes}};
  return json;
}

BenchColumn figures_of(const MeasuredSteps& steps, const RecordedRun& run, const MachineLimits& limits) {
  BenchColumn column;
  column.engine = media_engine_query(run.data.loader.media.driver).name;
  column.step_seconds = steps.seconds;
  column.losses = steps.losses;
  std::vector<double> rates;
  for (std::size_t i = 0; i < steps.seconds.size(); ++i) {
    rates.push_back(static_cast<double>(steps.samples[i]) / steps.seconds[i]);
  }
  column.median = median_of(rates);
  std::vector<double> token_rates;
  for (std::size_t i = 0; i < steps.tokens.size(); ++i)
    token_rates.push_back(static_cast<double>(steps.tokens[i]) / steps.seconds[i]);
  if (!token_rates.empty()) column.tokens = median_of(token_rates);
  column.decoding = steps.decoding;
  column.least = *std::min_element(rates.begin(), rates.end());
  column.most = *std::max_element(rates.begin(), rates.end());
  const double all = std::accumulate(steps.seconds.begin(), steps.seconds.end(), 0.0);
  for (int phase = 0; phase < kStepPhases; ++phase) column.phases[phase] = steps.phases[phase] / all;
  column.could_deliver = std::max(steps.could_deliver, column.median);
  column.ring_occupancy = steps.stream.mean_occupancy;
  column.planned_bytes = run.plan.peak_bytes();
  column.trained_parameters = run.session.layout().trained_elements;
  column.resident_bytes = steps.resident_bytes;
  const Settings& settings = run.settings;
  const bool trains = run.graphs.trains();
  double samples = static_cast<double>(*std::max_element(steps.samples.begin(), steps.samples.end()));
  double step = trains ? static_cast<double>(settings.training.gradient_accumulation_steps) : 1.0;
  if (trains && settings.machine.step_seconds > 0.0) {
    step *= settings.machine.step_seconds;
  } else {
    const std::vector<NodeTime> nodes = of_one_replay(steps.nodes, static_cast<double>(steps.micro_batches));
    column.operations = times_by_kind(nodes, 1.0, &limits);
    column.layers = layers_of(nodes, limits);
    // The work is that of a mean batch: the last one of the data may have fewer rows.
    samples = static_cast<double>(steps.rows.samples()) * step;
    step *= limit_seconds_of(column.operations);
    if (trains)
      step += update_bytes_of_parameter(settings.training.optimizer) * static_cast<double>(column.trained_parameters) *
              1e-9 / limits.gigabytes_per_second;
  }
  column.ceiling = samples / step;
  return column;
}

std::string bench_text(const Bench& bench) {
  using Measured = const BenchColumn&;
  std::string text = subject_text(bench);
  const auto add = [&](const std::string& name, const auto& value) { add_row(&text, name, bench.columns, value); };
  const std::string step = bench.trains ? "step" : "batch";
  add("", [](Measured c) { return c.name; });
  add("samples/s, median", [](Measured c) { return formatted("%.2f", c.median); });
  add("  slowest " + step, [](Measured c) { return formatted("%.2f", c.least); });
  add("  fastest " + step, [](Measured c) { return formatted("%.2f", c.most); });
  if (bench.generates) {
    const auto rate = [](Measured c) { return 1e-9 * c.decoding.bytes / c.decoding.seconds; };
    add("tokens/s, median", [](Measured c) { return formatted("%.2f", c.tokens); });
    add("decoder, next tokens", [](Measured c) { return formatted("%.3f ms", 1e3 * c.decoding.seconds); });
    add("  memory traffic", [](Measured c) { return formatted("%.1f MB", 1e-6 * c.decoding.bytes); });
    add("  GB/s", [&](Measured c) { return formatted("%.1f", rate(c)); });
    add("  of reading memory",
        [&](Measured c) { return formatted("%.1f %%", 100.0 * rate(c) / bench.limits.read_gigabytes_per_second); });
  }
  add("ceiling, samples/s", [](Measured c) { return formatted("%.2f", c.ceiling); });
  add("  reached", [](Measured c) { return formatted("%.1f %%", 100.0 * c.median / c.ceiling); });
  add(step + ", median", [](Measured c) { return formatted("%.2f ms", 1e3 * median_of(c.step_seconds)); });
  for (int phase = 0; phase < kStepPhases; ++phase) {
    const StepPhase named = static_cast<StepPhase>(phase);
    if (!bench.trains && named != StepPhase::kWaitForData && named != StepPhase::kForward) continue;
    add(std::string("  ") + step_phase_name(named), [phase](Measured c) {
      return std::isnan(c.phases[phase]) ? std::string("-") : formatted("%.2f %%", 100.0 * c.phases[phase]);
    });
  }
  add("loader can deliver", [](Measured c) {
    return std::isnan(c.could_deliver) ? std::string("not measured") : formatted("%.1f /s", c.could_deliver);
  });
  add("ring slots ready", [](Measured c) { return formatted("%.2f", c.ring_occupancy); });
  add_memory_rows(&text, bench.columns);
  if (bench.names_engines) text += "  columns: media engine, loader workers\n";
  if (!bench.columns.back().operations.empty()) {
    text += operations_text("operation", "batch", bench.columns.back().operations);
    text += layers_text(bench.columns.back().layers);
    text +=
        "  limit and ceiling: arithmetic as fast as matrix products, memory as fast as a copy outside the caches;\n"
        "  an operation on cached data can be faster, and so can a step of a small model on few samples\n";
    text += lost_text(bench.columns.back().lost, "batch", bench.columns.back().threads);
  }
  return text;
}

std::string simulated_text(const Bench& bench) {
  const BenchColumn& column = bench.columns.back();
  return simulated_speed_text(column.threads, column.median, column.ceiling, "samples/s") +
         lost_text(column.lost, "batch", column.threads);
}

std::string bench_json(const Bench& bench) {
  return bench_document(bench,
                        bench.trains      ? "training"
                        : bench.generates ? "generation"
                                          : "evaluation",
                        bench.columns);
}

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

double BenchStage::limit_seconds() const { return limit_seconds_of(operations); }

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

std::string bench_text(const BenchDrawing& bench) {
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

std::string bench_json(const BenchDrawing& bench) { return bench_document(bench, "drawing", bench.columns); }

}  // namespace bascule
