// SPDX-License-Identifier: Apache-2.0
// The files and facts of a training run, and settings that would do nothing, or harm.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "src/base/readable.h"
#include "src/files/input_file.h"
#include "src/graph/parameters.h"
#include "src/loader/loader.h"
#include "src/logs/mlperf_log.h"
#include "src/logs/step_record.h"
#include "src/record/opened_model.h"
#include "src/record/recorded_run.h"
#include "src/settings/settings.h"

namespace bascule {

// The files that a training run reads: what must be on another machine for the same run. Before the seal.

// The files of the model, the tokenizer, the data, a checkpoint that training.resume names, and the hosts; not the
// settings file, and nothing in output_dir. Sorted by folder. Reads the model's index of weights and no weights. Throws
// Error (kData) where the weights, or the checkpoint's folder, are missing.
std::vector<InputFolder> run_inputs(const RecordedRun& run);

// Facts of a recorded run, for the marker in its folder and for its report. Not sealed.

// Numbers, not tensors.
struct ParameterCount {
  std::int64_t all = 0, trained = 0;
};

ParameterCount count_parameters(const ParameterSet& parameters);

// "131,072 parameters, 65,536 of them trained".
std::string parameters_text(const ParameterSet& parameters);

// Build, ISA, engine, seed and digests: what is needed to get the same bits.
std::vector<NamedText> provenance_of(const RecordedRun& run, Isa isa);

// Keys of [data] and [model] that are set but that this model, head and data do not read.

// One line for people: "settings: ignored: data.image_column (the model reads no pictures), ..."; empty: every key
// that differs from its default is read. Before the seal.
std::string unread_settings(const Settings& settings, const OpenedModel& opened, const LoaderSettings& loader);

// Keeps a run from writing among its data. Before the seal, and before anything is written.

// Throws Error (kSettings) where training.output_dir, or the store of report.tracking_dir, lies in a folder that the
// run reads a split from: its files would be read as data, and a class folder would have a class without pictures from
// then on.
void check_output_is_apart(const Settings& settings);

// The lines of report.mlperf_log that come from settings, machine and data: those before the first byte of the data is
// read, and those that need the data. Before the seal.

// A new log in output_dir, up to run_start. began_ns: when the command began, by monotonic_ns(). Throws Error{kDisk}.
MlperfLog begin_mlperf_log(const Settings& settings, std::int64_t began_ns);

// Benchmark, hyperparameters, precision and parallelism.
void log_mlperf_facts(const RecordedRun& run, MlperfLog* log);

// The value of eval_accuracy: metric_for_best_model, else the judge's first fraction that needs no generated text, else
// the loss.
EvaluationFigure mlperf_figure(const RecordedRun& run);

}  // namespace bascule
