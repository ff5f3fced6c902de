// SPDX-License-Identifier: Apache-2.0
// The lines of report.mlperf_log that come from settings, machine and data: those before the first byte of the data is
// read, and those that need the data. Before the seal.
#pragma once

#include <cstdint>

#include "src/logs/mlperf_log.h"
#include "src/logs/step_record.h"
#include "src/record/recorded_run.h"

namespace bascule {

// A new log in output_dir, up to run_start. began_ns: when the command began, by monotonic_ns(). Throws Error{kDisk}.
MlperfLog begin_mlperf_log(const Settings& settings, std::int64_t began_ns);

// Benchmark, hyperparameters, precision and parallelism.
void log_mlperf_facts(const RecordedRun& run, MlperfLog* log);

// The value of eval_accuracy: metric_for_best_model, else the judge's first fraction that needs no generated text, else
// the loss.
EvaluationFigure mlperf_figure(const RecordedRun& run);

}  // namespace bascule
