// SPDX-License-Identifier: Apache-2.0
#include "src/commands/bench_figures.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "firmware_shims/media_engine.h"
#include "src/base/formatted.h"
#include "src/json/json.h"
#include "src/update/optimizer.h"

namespace bascule {
namespace {

Json column_json(const BenchColumn& column) {
  Json phases = Json::object();
  for (int phase = 0; phase < kStepPhases; ++phase) {
    phases[step_phase_name(static_cast<StepPhase>(phase))] = column.phases[phase];
  }
  return {{"workers", column.workers},
          {"batch", column.batch},
          {"image_size", column.image_size},
          {"max_seq_length", column.max_seq_length},
          {"media_engine", column.engine},
          {"samples_per_second", {{"median", column.median}, {"min", column.least}, {"max", column.most}}},
          {"tokens_per_second", column.tokens > 0.0 ? Json(column.tokens) : Json(nullptr)},
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
  if (bench.generates)
    add_row(&text, "tokens/s, median", bench.columns, [](const BenchColumn& c) { return formatted("%.2f", c.tokens); });
  add_row(&text, "ceiling, samples/s", bench.columns,
          [](const BenchColumn& c) { return formatted("%.2f", c.ceiling); });
  add_row(&text, "  reached", bench.columns,
          [](const BenchColumn& c) { return formatted("%.1f %%", 100.0 * c.median / c.ceiling); });
  add_row(&text, step + ", median", bench.columns,
          [](const BenchColumn& c) { return formatted("%.2f ms", 1e3 * median_of(c.step_seconds)); });
  for (int phase = 0; phase < kStepPhases; ++phase) {
    const StepPhase named = static_cast<StepPhase>(phase);
    if (!bench.trains && named != StepPhase::kWaitForData && named != StepPhase::kForward) continue;
    add_row(&text, std::string("  ") + step_phase_name(named), bench.columns,
            [phase](const BenchColumn& c) { return formatted("%.2f %%", 100.0 * c.phases[phase]); });
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
  }
  return text;
}

std::string bench_json(const Bench& bench) {
  Json columns = Json::array();
  for (const BenchColumn& column : bench.columns) columns.push_back(column_json(column));
  return bench_document(bench, bench.trains ? "training" : bench.generates ? "generation" : "evaluation", columns);
}

}  // namespace bascule
