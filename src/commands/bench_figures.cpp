// SPDX-License-Identifier: Apache-2.0
#include "src/commands/bench_figures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <set>

#include "firmware_shims/media_engine.h"
#include "src/base/messages.h"
#include "src/graph/graph.h"
#include "src/json/json.h"
#include "src/update/optimizer.h"

namespace bascule {
namespace {

void add(BenchTime* time, const NodeTime& node, double replays, const MachineLimits& limits) {
  time->seconds += node.seconds / replays;
  time->flops += node.flops;
  time->bytes += node.bytes;
  time->limit_seconds += seconds_at_limits(node.flops, node.bytes, node.bf16_products, limits);
}

Json time_json(const std::string& name, const BenchTime& time) {
  return {{"name", name},
          {"seconds", time.seconds},
          {"flops", time.flops},
          {"bytes", time.bytes},
          {"limit_seconds", time.limit_seconds}};
}

const char* precision_word(const BenchSubject& subject) { return subject.is_bf16 ? "bf16" : "float32"; }

}  // namespace

std::vector<BenchOperation> operations_of(const std::vector<NodeTime>& nodes, double replays,
                                          const MachineLimits& limits) {
  std::map<std::string, BenchOperation> by_kind;
  for (const NodeTime& node : nodes) {
    by_kind[node.kind].name = node.kind;
    add(&by_kind[node.kind].time, node, replays, limits);
  }
  std::vector<BenchOperation> operations;
  operations.reserve(by_kind.size());
  for (auto& [name, kind] : by_kind) operations.push_back(kind);
  std::stable_sort(operations.begin(), operations.end(),
                   [](const BenchOperation& a, const BenchOperation& b) { return a.time.seconds > b.time.seconds; });
  return operations;
}

std::vector<BenchLayers> layers_of(const std::vector<NodeTime>& nodes, double replays, const MachineLimits& limits) {
  std::vector<BenchLayers> layers;
  std::map<std::string, std::size_t> place;  // by name
  std::set<std::string> scopes;
  for (const NodeTime& node : nodes) {
    const auto [found, is_new] = place.emplace(layer_kind(node.scope), layers.size());
    if (is_new) layers.push_back({found->first, 0, 0.0, 0.0, 0.0, {}});
    BenchLayers& kind = layers[found->second];
    if (scopes.insert(node.scope).second) ++kind.layers;
    (node.again      ? kind.again_seconds
     : node.backward ? kind.backward_seconds
                     : kind.forward_seconds) += node.seconds / replays;
    add(&kind.time, node, replays, limits);
  }
  return layers;
}

double limit_seconds_of(const std::vector<BenchOperation>& operations) {
  double seconds = 0.0;
  for (const BenchOperation& operation : operations) seconds += operation.time.limit_seconds;
  return seconds;
}

std::string operations_text(const std::string& heading, const std::string& replay,
                            const std::vector<BenchOperation>& operations) {
  char line[160];
  std::snprintf(line, sizeof line, "\n  %-31.31s%12s    share   GFLOP/s      GB/s   of its limit\n", heading.c_str(),
                ("ms / " + replay).c_str());
  std::string text = line;
  double all = 0.0;
  for (const BenchOperation& operation : operations) all += operation.time.seconds;
  for (const auto& [name, time] : operations) {
    std::snprintf(line, sizeof line, "  %-32.32s%11.3f  %5.1f %%  %8.1f  %8.1f        %5.1f %%\n", name.c_str(),
                  time.seconds * 1e3, 100.0 * time.seconds / all, time.flops * 1e-9 / time.seconds,
                  time.bytes * 1e-9 / time.seconds, 100.0 * time.limit_seconds / time.seconds);
    text += line;
  }
  return text;
}

std::string layers_text(const std::vector<BenchLayers>& layers) {
  bool is_repeated = false;
  double all = 0.0;
  std::vector<std::string> names = {"layers, ms / batch"};
  std::size_t width = 0;
  for (const BenchLayers& kind : layers) {
    all += kind.time.seconds;
    is_repeated = is_repeated || kind.again_seconds > 0.0;
    names.push_back(kind.layers > 1 ? std::to_string(kind.layers) + " x " + kind.name : kind.name);
    width = std::max(width, names.back().size());
  }
  for (std::string& name : names) name.resize(std::max(width, name.size()), ' ');
  std::string text = "\n  " + names[0] + "    forward   backward" + (is_repeated ? " recomputed" : "");
  text += "    share   of their limit\n";
  for (std::size_t k = 0; k < layers.size(); ++k) {
    const BenchLayers& kind = layers[k];
    text += "  " + names[k + 1] + formatted("%11.3f", kind.forward_seconds * 1e3) +
            formatted("%11.3f", kind.backward_seconds * 1e3);
    if (is_repeated) text += formatted("%11.3f", kind.again_seconds * 1e3);
    text += formatted("  %5.1f %%", 100.0 * kind.time.seconds / all) +
            formatted("          %5.1f %%\n", 100.0 * kind.time.limit_seconds / kind.time.seconds);
  }
  return text;
}

Json operations_json(const std::vector<BenchOperation>& operations) {
  Json all = Json::array();
  for (const auto& [name, time] : operations) all.push_back(time_json(name, time));
  return all;
}

Json layers_json(const std::vector<BenchLayers>& layers) {
  Json all = Json::array();
  for (const BenchLayers& kind : layers) {
    Json layer = time_json(kind.name, kind.time);
    layer["layers"] = kind.layers;
    layer["forward_seconds"] = kind.forward_seconds;
    layer["backward_seconds"] = kind.backward_seconds;
    layer["recomputed_seconds"] = kind.again_seconds;
    all.push_back(layer);
  }
  return all;
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

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

std::string bench_document(const BenchSubject& subject, const char* measured, const Json& columns) {
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

namespace {

Json column_json(const BenchColumn& column) {
  Json phases = Json::object();
  for (int phase = 0; phase < kStepPhases; ++phase) {
    phases[step_phase_name(static_cast<StepPhase>(phase))] = column.phases[phase];
  }
  return {{"threads", column.threads},
          {"simulated", !column.lost.empty()},
          {"lost", lost_json(column.lost)},
          {"workers", column.workers},
          {"batch", column.batch},
          {"image_size", column.image_size},
          {"max_seq_length", column.max_seq_length},
          {"media_engine", column.engine},
          {"samples_per_second", {{"median", column.median}, {"min", column.least}, {"max", column.most}}},
          {"tokens_per_second", column.tokens > 0.0 ? Json(column.tokens) : Json(nullptr)},
          {"decoding", column.decoding.bytes > 0.0
                           ? Json({{"seconds", column.decoding.seconds}, {"bytes", column.decoding.bytes}})
                           : Json(nullptr)},
          {"ceiling_samples_per_second", column.ceiling},
          {"step_seconds", column.step_seconds},
          {"losses", column.losses},
          {"phases", phases},
          {"loader_samples_per_second", column.could_deliver},
          {"ring_occupancy", column.ring_occupancy},
          {"planned_bytes", column.planned_bytes},
          {"trained_parameters", column.trained_parameters},
          {"resident_bytes", column.resident_bytes},
          {"operations", operations_json(column.operations)},
          {"layers", layers_json(column.layers)}};
}

}  // namespace

BenchColumn figures_of(const MeasuredSteps& steps, const RecordedRun& run, const MachineLimits& limits) {
  BenchColumn column;
  column.engine = media_engine_query(run.data.loader.engine).name;
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
    const double replays = static_cast<double>(steps.micro_batches);
    column.operations = operations_of(steps.nodes, replays, limits);
    column.layers = layers_of(steps.nodes, replays, limits);
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
  std::string text = subject_text(bench);
  add_row(&text, "", bench.columns, [](const BenchColumn& c) { return c.name; });
  add_row(&text, "samples/s, median", bench.columns, [](const BenchColumn& c) { return formatted("%.2f", c.median); });
  const std::string step = bench.trains ? "step" : "batch";
  add_row(&text, "  slowest " + step, bench.columns, [](const BenchColumn& c) { return formatted("%.2f", c.least); });
  add_row(&text, "  fastest " + step, bench.columns, [](const BenchColumn& c) { return formatted("%.2f", c.most); });
  if (bench.generates) {
    add_row(&text, "tokens/s, median", bench.columns, [](const BenchColumn& c) { return formatted("%.2f", c.tokens); });
    add_row(&text, "decoder, next tokens", bench.columns,
            [](const BenchColumn& c) { return formatted("%.3f ms", 1e3 * c.decoding.seconds); });
    add_row(&text, "  memory traffic", bench.columns,
            [](const BenchColumn& c) { return formatted("%.1f MB", 1e-6 * c.decoding.bytes); });
    add_row(&text, "  GB/s", bench.columns,
            [](const BenchColumn& c) { return formatted("%.1f", 1e-9 * c.decoding.bytes / c.decoding.seconds); });
    add_row(&text, "  of reading memory", bench.columns, [&bench](const BenchColumn& c) {
      const double limit = bench.limits.read_gigabytes_per_second;
      return formatted("%.1f %%", 1e-7 * c.decoding.bytes / c.decoding.seconds / limit);
    });
  }
  add_row(&text, "ceiling, samples/s", bench.columns,
          [](const BenchColumn& c) { return formatted("%.2f", c.ceiling); });
  add_row(&text, "  reached", bench.columns,
          [](const BenchColumn& c) { return formatted("%.1f %%", 100.0 * c.median / c.ceiling); });
  add_row(&text, step + ", median", bench.columns,
          [](const BenchColumn& c) { return formatted("%.2f ms", 1e3 * median_of(c.step_seconds)); });
  for (int phase = 0; phase < kStepPhases; ++phase) {
    const StepPhase named = static_cast<StepPhase>(phase);
    if (!bench.trains && named != StepPhase::kWaitForData && named != StepPhase::kForward) continue;
    add_row(&text, std::string("  ") + step_phase_name(named), bench.columns, [phase](const BenchColumn& c) {
      return std::isnan(c.phases[phase]) ? std::string("-") : formatted("%.2f %%", 100.0 * c.phases[phase]);
    });
  }
  add_row(&text, "loader can deliver", bench.columns, [](const BenchColumn& c) {
    return std::isnan(c.could_deliver) ? std::string("not measured") : formatted("%.1f /s", c.could_deliver);
  });
  add_row(&text, "ring slots ready", bench.columns,
          [](const BenchColumn& c) { return formatted("%.2f", c.ring_occupancy); });
  add_memory_rows(&text, bench.columns);
  if (bench.names_engines) text += "  columns: media engine, loader workers\n";
  if (!bench.columns.back().operations.empty()) {
    text += operations_text("operation", "batch", bench.columns.back().operations);
    text += layers_text(bench.columns.back().layers);
    text +=
        "  limit and ceiling: arithmetic as fast as matrix products, memory as fast as a copy outside the caches;\n"
        "  an operation on cached data can be faster, and so can a step of a small model on few samples\n";
    text += lost_text(bench.columns.back().lost, bench.columns.back().threads);
  }
  return text;
}

std::string bench_json(const Bench& bench) {
  Json columns = Json::array();
  for (const BenchColumn& column : bench.columns) columns.push_back(column_json(column));
  return bench_document(bench, bench.trains ? "training" : bench.generates ? "generation" : "evaluation", columns);
}

}  // namespace bascule
