// SPDX-License-Identifier: Apache-2.0
#include "src/record/run_inputs.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "src/machine/machine.h"

namespace bascule {
namespace {

// In the order of the enumerators, as a settings file has them; optimizers as mlperf-logging has them, too.
constexpr const char* kOptimizers[] = {"adamw", "lamb", "adafactor"};
constexpr const char* kSchedules[] = {"linear",         "cosine",
                                      "constant",       "constant_with_warmup",
                                      "polynomial",     "cosine_with_restarts",
                                      "inverse_sqrt",   "cosine_with_min_lr",
                                      "polynomial_jump"};

template <typename Enumeration, std::size_t N>
const char* name_of(Enumeration value, const char* const (&names)[N]) {
  return names[static_cast<std::size_t>(value)];
}

void log_data(const RecordedRun& run, MlperfLog* log) {
  const TrainingSettings& training = run.settings.training;
  const std::int64_t micro_batch = training.per_device_train_batch_size;
  const std::int64_t accumulation = training.gradient_accumulation_steps;
  log->fact("global_batch_size", micro_batch * accumulation * run.settings.distributed.world_size);
  log->fact("micro_batch_size", micro_batch);
  log->fact("gradient_accumulation_steps", accumulation);
  log->fact("seed", run.settings.run.seed);
  log->fact("train_samples", run.pace.length.samples_per_epoch);
  log->fact("eval_samples", run.data.find(Split::kValidation)->manifest->rows());
  log->fact("max_steps", run.pace.length.total_updates);
}

void log_optimizer(const RecordedRun& run, MlperfLog* log) {
  const TrainingSettings& training = run.settings.training;
  const Schedule& schedule = run.pace.schedule;
  const std::string name = name_of(training.optimizer, kOptimizers);
  log->fact("opt_name", name);
  log->fact("opt_base_learning_rate", schedule.learning_rate);
  log->fact("opt_end_learning_rate", schedule.at(schedule.total_steps));
  log->fact("opt_learning_rate_decay_schedule", name_of(schedule.kind, kSchedules));
  log->fact("opt_learning_rate_training_steps", schedule.total_steps);
  log->fact("opt_learning_rate_warmup_steps", schedule.warmup_steps);
  log->fact("opt_gradient_clip_norm", training.max_grad_norm);
  log->fact("opt_weight_decay", training.weight_decay);
  if (training.ema_decay > 0.0) log->fact("model_eval_ema_factor", training.ema_decay);
  if (training.optimizer == Optimizer::kAdafactor) return;  // it has none of these
  const std::string prefix = "opt_" + name + "_";
  log->fact((prefix + "beta_1").c_str(), training.adam_beta1);
  log->fact((prefix + "beta_2").c_str(), training.adam_beta2);
  log->fact((prefix + "epsilon").c_str(), training.adam_epsilon);
  const bool is_lamb = training.optimizer == Optimizer::kLamb;
  log->fact((prefix + (is_lamb ? "weight_decay_rate" : "weight_decay")).c_str(), training.weight_decay);
}

// Ranks share the samples, and nothing else is divided: no tensor, layer or text lies on several of them.
void log_arithmetic(const Settings& settings, MlperfLog* log) {
  constexpr const char* kNumberTypes[] = {"fp32", "bfloat16"};  // Precision and WireType
  const char* const products = name_of(settings.model.precision, kNumberTypes);
  const DistributedSettings& distributed = settings.distributed;
  log->fact("lowest_numerical_precision_in_linear", products);
  log->fact("lowest_numerical_precision_in_attn", products);
  log->fact("lowest_numerical_precision_in_comm",
            name_of(distributed.machines > 1 ? distributed.wire_type : WireType::kFloat32, kNumberTypes));
  for (const char* key : {"tensor_parallelism", "pipeline_parallelism", "context_parallelism", "expert_parallelism"})
    log->fact(key, std::int64_t{1});
}

}  // namespace

MlperfLog begin_mlperf_log(const Settings& settings, std::int64_t began_ns) {
  MlperfLog log = MlperfLog::begin(settings.run.output_dir.resolved);
  const std::string processor = read_processor().name.value_or("unknown processor");
  log.begin_init(began_ns);
  log.fact("submission_org", settings.report.mlperf_log);
  log.fact("submission_platform", std::to_string(settings.distributed.machines) + "x " + processor);
  log.fact("submission_division", "open");
  log.fact("submission_status", "research");
  log.fact_of_cache(false);
  log.begin_run();
  return log;
}

void log_mlperf_facts(const RecordedRun& run, MlperfLog* log) {
  const std::string& file = run.settings.origin.file;
  log->fact("submission_benchmark", std::string(run.opened.family->model_type) + "_" + run.settings.model.head);
  log->fact("config_filename", file.empty() ? "sealed settings" : file);
  log_data(run, log);
  log_optimizer(run, log);
  log_arithmetic(run.settings, log);
}

EvaluationFigure mlperf_figure(const RecordedRun& run) {
  if (run.pace.best_figure) return *run.pace.best_figure;
  const Metrics metrics = run.opened.judge_kind->metrics;
  const auto fits = [](const Metric& metric) { return metric.is_fraction && !metric.is_of_generated; };
  const auto first = std::find_if(metrics.begin(), metrics.end(), fits);
  return *EvaluationFigure::named(first == metrics.end() ? "loss" : first->key, metrics,
                                  run.opened.inputs.class_names.size());
}

}  // namespace bascule
