// SPDX-License-Identifier: Apache-2.0
#include "src/answer/report.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/files/durable_write.h"
#include "src/json/json.h"

namespace bascule {
namespace {

// Prefixes of the keys of one split, as in Trainer's files and records.
constexpr char kEvaluationPrefix[] = "eval_";
constexpr char kAveragedPrefix[] = "ema_";  // behind that of the split

// Hugging Face rounds run times to 4 digits and rates to 3.
double rounded(double value, int digits) {
  double scale = 1.0;
  for (int i = 0; i < digits; ++i) scale *= 10.0;
  const double scaled = std::round(value * scale);
  return std::isfinite(scaled) ? scaled / scale : value;
}

double rate(std::int64_t count, double seconds) {
  return seconds > 0.0 ? rounded(static_cast<double>(count) / seconds, 3) : 0.0;
}

double gigabytes(std::uint64_t bytes) { return rounded(static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0), 2); }

void add_memory(Json& json, const Report& report) {
  const std::uint64_t held = report.resident_bytes != 0 ? report.resident_bytes : report.planned_bytes;
  json["memory_allocated (GB)"] = gigabytes(held);
  json["max_memory_allocated (GB)"] = gigabytes(report.planned_bytes);
  if (report.machine_bytes != 0) json["total_memory_available (GB)"] = gigabytes(report.machine_bytes);
}

// train_* as Trainer writes them: of this process. total_train_*: of the whole run, over its resumes.
void add_train_figures(Json& json, const Report& report) {
  const WholeRun& whole = report.train.whole;
  json["total_flos"] = report.train.total_flos;
  json["total_train_processes"] = whole.processes;
  json["total_train_runtime"] = rounded(whole.seconds, 4);
  json["total_train_samples_per_second"] = rounded(whole.samples_per_second, 3);
  json["total_train_steps"] = whole.steps;
  json["total_train_steps_per_second"] = rounded(whole.steps_per_second, 3);
  json["train_loss"] = report.train.train_loss;
  if (!report.train.trained_here()) return;
  json["train_runtime"] = rounded(report.train.seconds, 4);
  json["train_samples_per_second"] = rounded(report.train.samples_per_second, 3);
  json["train_steps_per_second"] = rounded(report.train.steps_per_second, 3);
}

void add_evaluation_figures(Json& json, const EvaluationRecord& record, Metrics metrics, const std::string& prefix) {
  if (!std::isnan(record.loss)) json[prefix + "loss"] = record.loss;
  json[prefix + "runtime"] = rounded(record.seconds, 4);
  json[prefix + "samples"] = record.samples;
  json[prefix + "samples_per_second"] = rate(record.samples, record.seconds);
  json[prefix + "steps_per_second"] = rate(record.steps, record.seconds);
  for (const Metric& metric : metrics) {
    if (!std::isnan(record[metric])) json[prefix + metric.key] = record[metric];
  }
}

// The rows of each split: how many there are, and how many were skipped.
void add_rows(Json& json, const Report& report) {
  for (const SplitRows& split : report.rows) {
    const std::string prefix = std::string(split_name(split.split)) + "_";
    if (split.judged >= 0) {
      json[prefix + "skipped_rows"] = split.skipped;
      continue;
    }
    json[prefix + "samples"] = split.rows;
    json[prefix + "skipped_rows"] = split.skipped_rows;
    json[prefix + "replaced_samples"] = split.skipped;
  }
}

void add_loader_figures(Json& json, const Report& report) {
  const LoaderSummary& loader = report.loader;
  json["loader_bad_samples"] = loader.bad_samples;
  if (!report.train.trained_here()) return;
  json["loader_could_deliver_samples_per_second"] = rounded(loader.could_deliver_samples_per_second, 3);
  json["loader_ring_occupancy"] = rounded(loader.ring_occupancy, 3);
  json["loader_ring_slots"] = loader.ring_slots;
  json["loader_step_waited_seconds"] = rounded(loader.step_waited_seconds, 4);
  json["loader_waited_for_step_seconds"] = rounded(loader.waited_for_step_seconds, 4);
}

void add_wire(Json& json, const WireSummary& wire) {
  if (!wire.is_there || wire.updates == 0) return;
  const double updates = static_cast<double>(wire.updates);
  json["wire_gradient_bytes"] = wire.gradient_bytes;
  json["wire_received_bytes_per_update"] = rounded(static_cast<double>(wire.received_bytes) / updates, 1);
  json["wire_sent_bytes_per_update"] = rounded(static_cast<double>(wire.sent_bytes) / updates, 1);
  json["wire_wait_seconds_per_update"] = rounded(wire.wait_seconds / updates, 6);
}

void add_device(Json& json, const DeviceReport& device) {
  if (!device.is_there) return;
  json["media_engine_resets"] = device.resets;
  json["media_engine_retries"] = device.retries;
  json["media_engine_fallbacks"] = device.fell_back ? 1 : 0;
  for (const DeviceReport::Fault& fault : device.faults) json["media_engine_fault_" + fault.name] = fault.count;
}

Json train_results(const Report& report) {
  Json json = Json::object();
  json["epoch"] = report.epoch;
  json["parameters"] = report.parameters;
  json["trained_parameters"] = report.trained_parameters;
  add_train_figures(json, report);
  add_loader_figures(json, report);
  add_wire(json, report.wire);
  add_memory(json, report);
  return json;
}

Json split_results(const Report& report, const EvaluationRecord& record) {
  Json json = Json::object();
  json["epoch"] = record.epoch;
  add_evaluation_figures(json, record, report.metrics, kEvaluationPrefix);
  if (const EvaluationRecord* const averaged = averaged_evaluation(report, record.split))
    add_evaluation_figures(json, *averaged, report.metrics, std::string(kEvaluationPrefix) + kAveragedPrefix);
  add_memory(json, report);
  return json;
}

Json step_entry(const StepRecord& record) {
  return Json{{"epoch", rounded(record.epoch, 4)},
              {"grad_norm", record.grad_norm},
              {"learning_rate", record.learning_rate},
              {"loss", rounded(record.loss, 4)},
              {"step", record.global_step}};
}

Json evaluation_entry(const EvaluationRecord& record, Metrics metrics, const std::string& prefix) {
  Json json = Json::object();
  json["epoch"] = rounded(record.epoch, 4);
  json["step"] = record.global_step;
  add_evaluation_figures(json, record, metrics, prefix);
  return json;
}

// Step records and validations in the order of steps, then the summary of the whole run.
Json log_history(const Report& report) {
  std::vector<std::pair<std::int64_t, Json>> entries;
  for (const StepRecord& record : report.steps) entries.push_back({record.global_step, step_entry(record)});
  const std::string averaged = std::string(kEvaluationPrefix) + kAveragedPrefix;
  for (const EvaluationRecord& record : report.averaged_curve)
    entries.push_back({record.global_step, evaluation_entry(record, report.metrics, averaged)});
  for (const EvaluationRecord& record : report.evaluations) {
    if (record.split == Split::kValidation)
      entries.push_back({record.global_step, evaluation_entry(record, report.metrics, kEvaluationPrefix)});
  }
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Json history = Json::array();
  for (auto& [step, entry] : entries) history.push_back(std::move(entry));
  if (report.train.done) {
    Json summary = Json::object();
    summary["epoch"] = rounded(report.epoch, 4);
    summary["step"] = report.global_step;
    add_train_figures(summary, report);
    history.push_back(summary);
  }
  return history;
}

std::string file_text(const Json& json, int indent) { return json_text(json, indent) + "\n"; }

}  // namespace

std::string train_results_json(const Report& report) { return file_text(train_results(report), 4); }

std::string split_results_json(const Report& report, Split split) {
  const EvaluationRecord* const record = last_evaluation(report, split);
  return record == nullptr ? std::string() : file_text(split_results(report, *record), 4);
}

std::string all_results_json(const Report& report) {
  Json json = Json::object();
  if (report.train.done) json = train_results(report);
  for (const Split split : {Split::kValidation, Split::kTest}) {
    const EvaluationRecord* const record = last_evaluation(report, split);
    if (record == nullptr) continue;
    json["epoch"] = record->epoch;
    const std::string prefix = std::string(split_name(split)) + "_";
    add_evaluation_figures(json, *record, report.metrics, prefix);
    if (const EvaluationRecord* const averaged = averaged_evaluation(report, split))
      add_evaluation_figures(json, *averaged, report.metrics, prefix + kAveragedPrefix);
  }
  json["parameters"] = report.parameters;
  json["trained_parameters"] = report.trained_parameters;
  add_memory(json, report);
  add_rows(json, report);
  json["bad_samples"] = Json::array();
  for (const BadSample& bad : report.bad_samples) {
    json["bad_samples"].push_back({{"epoch", bad.epoch},
                                   {"picture", bad.picture},
                                   {"reason", bad.reason},
                                   {"replaced_by", bad.replaced_by.empty() ? Json(nullptr) : Json(bad.replaced_by)},
                                   {"row", bad.row},
                                   {"split", bad.split}});
  }
  json["bad_samples_count"] = report.bad_sample_count;
  add_device(json, report.device);
  return file_text(json, 4);
}

std::string trainer_state_json(const Report& report) {
  Json json = Json::object();
  const BestSummary& best = report.best;
  json["best_global_step"] = best.is_known ? Json(best.step) : Json(nullptr);
  json["best_metric"] = best.is_known ? Json(best.value) : Json(nullptr);
  json["best_model_checkpoint"] = best.checkpoint.empty() ? Json(nullptr) : Json(best.checkpoint);
  json["epoch"] = report.epoch;
  json["eval_steps"] = report.eval_steps;
  json["global_step"] = report.global_step;
  json["is_hyper_param_search"] = false;
  json["is_local_process_zero"] = true;
  json["is_world_process_zero"] = true;
  json["log_history"] = log_history(report);
  json["logging_steps"] = report.logging_steps;
  json["max_steps"] = report.max_steps;
  json["num_input_tokens_seen"] = 0;
  // A whole number, as Hugging Face counts epochs that have begun.
  json["num_train_epochs"] = static_cast<std::int64_t>(std::ceil(report.num_train_epochs));
  json["save_steps"] = report.save_steps;
  json["stateful_callbacks"] = Json::object();
  json["total_flos"] = report.train.total_flos;
  json["train_batch_size"] = report.train_batch_size;
  json["trial_name"] = nullptr;
  json["trial_params"] = nullptr;
  return file_text(json, 2);
}

std::string trace_json(const Report& report) {
  Json events = Json::array();
  double at = 0.0;
  for (const TracedOperation& operation : report.trace) {
    const double duration = operation.seconds * 1e6;
    events.push_back({{"name", operation.name},
                      {"cat", operation.place},
                      {"ph", "X"},
                      {"pid", 0},
                      {"tid", 0},
                      {"ts", rounded(at, 3)},
                      {"dur", rounded(duration, 3)},
                      {"args", {{"place", operation.place}, {"GFLOP/s", rounded(operation.gflops_per_second, 1)}}}});
    at += duration;
  }
  return file_text(Json{{"displayTimeUnit", "ms"}, {"traceEvents", events}}, -1);
}

void write_result_files(const Report& report) {
  const std::string folder = report.output_dir + "/";
  if (report.train.done) {
    write_output_file(folder + "train_results.json", train_results_json(report));
    write_output_file(folder + "trainer_state.json", trainer_state_json(report));
  }
  for (const Split split : {Split::kValidation, Split::kTest}) {
    const std::string text = split_results_json(report, split);
    if (!text.empty()) write_output_file(folder + split_name(split) + "_results.json", text);
  }
  write_output_file(folder + "all_results.json", all_results_json(report));
  if (!report.trace.empty()) write_output_file(folder + "trace.json", trace_json(report));
}

}  // namespace bascule
