// SPDX-License-Identifier: Apache-2.0
#include "src/commands/commands.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "firmware_shims/media_engine.h"
#include "src/base/error.h"
#include "src/base/messages.h"
#include "src/commands/bench_drawing.h"
#include "src/commands/bench_figures.h"
#include "src/commands/bench_threads.h"
#include "src/loader/loader_parts.h"
#include "src/pictures/picture_decoder.h"
#include "src/record/check_fits.h"
#include "src/record/opened_model.h"
#include "src/runtime/choose_isa.h"
#include "src/seal/measured_steps.h"
#include "src/settings/command_line_keys.h"
#include "src/update/optimizer.h"

namespace bascule {
namespace {

// In the order of BenchAxis.
struct Axis {
  const char* option;
  const char* key;
  const char* unit;          // of one
  std::int64_t least, most;  // as in the settings
  void (*set)(Settings& settings, std::int64_t value);
};
constexpr Axis kAxes[] = {
    {"--workers", "data.dataloader_num_workers", "worker", 0, 1024,
     [](Settings& s, std::int64_t v) { s.data.dataloader_num_workers = v; }},
    {"--batch", "training.per_device_train_batch_size", "sample", 1, 1 << 20,
     [](Settings& s, std::int64_t v) {
       s.training.per_device_train_batch_size = s.training.per_device_eval_batch_size = v;
     }},
    {"--image-size", "model.image_size", "pixel", 1, 65536,
     [](Settings& s, std::int64_t v) { s.model.image_size = v; }},
    {"--max-seq-length", "data.max_seq_length", "token", 2, 65536,
     [](Settings& s, std::int64_t v) { s.data.max_seq_length = v; }},
    {"--max-source-length", "data.max_source_length", "token", 2, 65536,
     [](Settings& s, std::int64_t v) { s.data.max_source_length = v; }},
    {"--max-target-length", "data.max_target_length", "token", 2, 65536,
     [](Settings& s, std::int64_t v) {
       s.data.max_target_length = v;
       s.data.val_max_target_length = 0;
     }},
    {"--num-beams", "generation.num_beams", "beam", 1, 1024,
     [](Settings& s, std::int64_t v) { s.generation.num_beams = v; }},
    {"--threads", "machine.threads", "thread", 1, 1024, [](Settings& s, std::int64_t v) { s.machine.threads = v; }},
    {"--side", "", "", 0, 0, nullptr},  // refused here: only runs that draw have it
};

bool trains(const Settings& settings, const BenchArguments& arguments) {
  return arguments.use.empty() ? settings.training.do_train : arguments.use == "train";
}

// The run with what the command line says of generation.
Settings with_use(Settings settings, const BenchArguments& arguments) {
  if (arguments.use != "generate") return settings;
  settings.training.predict_with_generate = true;
  if (arguments.new_tokens > 0)
    settings.generation.max_new_tokens = settings.generation.min_new_tokens = arguments.new_tokens;
  return settings;
}

// The same run without anything but the steps that are measured.
Settings only_steps(Settings settings, const BenchArguments& arguments) {
  TrainingSettings& training = settings.training;
  if (trains(settings, arguments)) {
    training.do_eval = training.do_predict = false;
    training.max_steps = arguments.warmup + arguments.steps;
  } else {
    training.do_train = false;
    training.do_predict = !training.do_eval;
    training.predict_with_generate = arguments.use == "generate";
  }
  settings.distributed.world_size = 1;
  return settings;
}

struct ColumnSettings {
  std::string name;
  Settings settings;
  const media_engine_driver* engine;
  TrainingLabels training_labels;
};

std::unique_ptr<RecordedRun> record_column(const ColumnSettings& column) {
  return record_run(column.settings, RankPlace{}, column.engine, std::nullopt, NewTokens::kStayInMemory,
                    NewLengths::kAreMeasured, column.training_labels);
}

bool is_simulated(const BenchArguments& arguments, int threads) {
  return arguments.axis == BenchAxis::kThreads && threads > usable_cores();
}

BenchColumn measure(const ColumnSettings& column, const BenchArguments& arguments, Isa isa,
                    const MachineLimits& limits) {
  const std::unique_ptr<RecordedRun> run = record_column(column);
  const std::int64_t batch = run->data.plan.streams.front().bounds.samples();  // fewer where there are fewer rows
  const bool varies_batch = arguments.axis == BenchAxis::kBatch && !arguments.values.empty();
  const std::string name = varies_batch ? count_of(batch, "sample") : column.name;
  std::fprintf(stderr, "bascule: bench: %lld + %lld %s with %s, media engine %s%s\n",
               static_cast<long long>(arguments.warmup), static_cast<long long>(arguments.steps),
               column.settings.training.do_train                ? "steps"
               : column.settings.training.predict_with_generate ? "batches of texts"
                                                                : "batches of the evaluation",
               count_of(column.settings.data.dataloader_num_workers, "worker").c_str(),
               media_engine_query(column.engine).name,
               arguments.axis == BenchAxis::kWorkers ? "" : (", " + name).c_str());
  const bool simulates = is_simulated(arguments, run->threads);
  MeasuredSteps steps = measure_steps(*run, isa, arguments.warmup, arguments.steps, simulates);
  std::vector<LostTime> lost;
  if (simulates) {
    const TrainingSettings& training = run->settings.training;
    const bool trains = run->graphs.trains();
    const double batches = trains ? static_cast<double>(training.gradient_accumulation_steps) : 1.0;
    const double update_bytes = trains ? update_bytes_of_parameter(training.optimizer) *
                                             static_cast<double>(run->session.layout().trained_elements)
                                       : 0.0;
    limit_by_memory(&steps, batches, update_bytes, limits.gigabytes_per_second);
    lost = lost_time(steps, run->threads);
  }
  BenchColumn figures = figures_of(steps, *run, limits);
  figures.threads = run->threads;
  figures.lost = std::move(lost);
  figures.name = simulates ? std::to_string(run->threads) + " simulated" : name;
  figures.workers = column.settings.data.dataloader_num_workers;
  figures.batch = batch;
  figures.image_size = reads_pictures(run->data.loader) ? run->opened.inputs.image_side : 0;
  figures.max_seq_length = reads_text(run->data.loader) ? column.settings.data.max_seq_length : 0;
  return figures;
}

// Throws Error for what cannot be measured, before anything is.
std::vector<ColumnSettings> columns_of(const Settings& settings, const BenchArguments& arguments) {
  const Axis& axis = kAxes[static_cast<int>(arguments.axis)];
  const bool varies_workers = arguments.axis == BenchAxis::kWorkers;
  std::vector<ColumnSettings> columns;
  const auto add = [&](const Settings& own, const media_engine_driver* engine, std::int64_t value) {
    const std::string workers = media_engine_query(engine).name + (", " + std::to_string(value));
    columns.push_back({varies_workers ? workers : count_of(value, axis.unit), own, engine,
                       settings.training.do_train ? TrainingLabels::kAreAlwaysRead : TrainingLabels::kAreReadToTrain});
  };
  for (const std::int64_t value : arguments.values) {
    if (value < axis.least || value > axis.most) {
      throw Error(ErrorKind::kSettings, axis.option, count_of(value, axis.unit),
                  "write numbers from " + std::to_string(axis.least) + " to " + std::to_string(axis.most));
    }
    Settings own = with_use(settings, arguments);
    axis.set(own, value);
    own.origin.where[axis.key] = axis.option;
    check_settings(own);
    add(only_steps(own, arguments), varies_workers ? media_engine_host() : media_engine_builtin(), value);
  }
  if (arguments.values.empty() || (varies_workers && media_engine_builtin() != media_engine_host()))
    add(only_steps(with_use(settings, arguments), arguments), media_engine_builtin(),
        settings.data.dataloader_num_workers);
  for (const ColumnSettings& column : columns) {
    const std::unique_ptr<RecordedRun> run = record_column(column);
    if (arguments.axis == BenchAxis::kSequenceLength && !reads_text(run->data.loader))
      throw Error(ErrorKind::kSettings, axis.option, "the model reads no text");
    const bool is_of_targets = arguments.axis == BenchAxis::kSourceLength ||
                               arguments.axis == BenchAxis::kTargetLength || arguments.axis == BenchAxis::kBeams;
    if (is_of_targets && !reads_text(run->data.loader, 1))
      throw Error(ErrorKind::kSettings, axis.option, "the model writes no text");
    if (&column == &columns.front() && !is_simulated(arguments, run->threads)) {
      for (const std::string& note : run->notes) std::fprintf(stderr, "bascule: %s\n", note.c_str());
    }
    const ProcessLimits now = read_process_limits();
    check_fits(*run, now, limits_here(column.settings.machine, now));
  }
  return columns;
}

// A file that is there was left out by its key.
Error nothing_to_evaluate(const DataSettings& data, const std::string& use) {
  const char* const what_to_do = data.evaluation_file().is_given()   ? "set training.do_eval = true"
                                 : data.prediction_file().is_given() ? "set training.do_predict = true"
                                                                     : "set data.validation_file or data.test_file";
  return Error(ErrorKind::kSettings, "--use " + use, "the run evaluates nothing", what_to_do);
}

}  // namespace

const char* option_of(BenchAxis axis) { return kAxes[static_cast<int>(axis)].option; }

int bench_command(const BenchArguments& arguments) {
  const Settings settings = settings_of_run(arguments.settings, model_words);
  refuse_serving(settings);
  if (settings.draw.is_given) return bench_drawing(arguments, settings);
  if (arguments.use == "draw" || arguments.axis == BenchAxis::kSide)
    throw Error(ErrorKind::kSettings, arguments.use == "draw" ? "--use draw" : "--side", "the run draws nothing",
                "name a file with a table [draw]");
  refuse_unsupported(settings);
  require_products(settings.machine, settings.origin);
  // Says what is wrong there before anything is measured.
  (void)media_options(settings.media_engine.simulation, settings.origin, media_engine_builtin());
  const TrainingSettings& training = settings.training;
  if (arguments.use == "train" && !training.do_train)
    throw Error(ErrorKind::kSettings, "--use train", "the run does not train", "set do_train = true");
  if ((arguments.use == "evaluate" || arguments.use == "generate") && !training.do_eval && !training.do_predict)
    throw nothing_to_evaluate(settings.data, arguments.use);
  if (arguments.use == "generate" && !settings.head()->reads_targets)
    throw Error(ErrorKind::kSettings, "--use generate", "the model writes no text");
  const bool is_of_texts = arguments.axis == BenchAxis::kBeams || arguments.new_tokens > 0;
  if (is_of_texts && arguments.use != "generate")
    throw Error(ErrorKind::kSettings, arguments.new_tokens > 0 ? "--new-tokens" : "--num-beams",
                "applies only to --use generate");
  const Isa isa = choose_isa(settings);
  const std::vector<ColumnSettings> columns = columns_of(settings, arguments);
  if (settings.distributed.world_size > 1) {
    std::fprintf(stderr, "bascule: bench: measuring one rank of %lld, alone\n",
                 static_cast<long long>(settings.distributed.world_size));
  }
  Bench bench;
  bench.settings_file = settings.origin.file;
  bench.isa = isa_text(isa, settings);
  bench.names_engines = arguments.axis == BenchAxis::kWorkers || arguments.values.empty();
  bench.is_bf16 = settings.model.precision == Precision::kBf16;
  bench.trains = columns.front().settings.training.do_train;
  bench.generates = columns.front().settings.training.predict_with_generate && !bench.trains;
  const GemmType type = bench.is_bf16 ? GemmType::kBf16 : GemmType::kFloat32;
  std::optional<MachineLimits> one_thread;  // of all columns that are simulated
  const auto limits_of = [&](int threads) {
    const auto measured = [&](int with) {
      return measure_limits(settings.machine.products, type, kernels_for(isa, settings.machine), with);
    };
    if (!is_simulated(arguments, threads)) return measured(threads);
    if (!one_thread) one_thread = measured(1);
    return limits_of_server(*one_thread, threads);
  };
  for (const ColumnSettings& column : columns) {
    if (bench.columns.empty() || arguments.axis == BenchAxis::kThreads) {
      bench.threads = compute_threads(column.settings.machine, RankPlace{});
      bench.limits = limits_of(bench.threads);
    }
    bench.columns.push_back(measure(column, arguments, isa, bench.limits));
  }
  std::fputs((arguments.json ? bench_json(bench) : bench_text(bench)).c_str(), stdout);
  return 0;
}

}  // namespace bascule
