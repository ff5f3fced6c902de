// SPDX-License-Identifier: Apache-2.0
#include "src/commands/commands.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "firmware_shims/media_engine.h"
#include "src/base/error.h"
#include "src/commands/bench_figures.h"
#include "src/commands/report_error.h"
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

struct Axis {
  const char* option;
  const char* key;
  const char* unit;          // of one
  std::int64_t least, most;  // as in the settings
  void (*set)(Settings& settings, std::int64_t value);
};
// In the order of BenchAxis.
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
    // Only runs that draw have it.
    {"--side", "draw.height", "pixel", 1, 8192, [](Settings& s, std::int64_t v) { s.draw.height = s.draw.width = v; }},
};
// Of runs that draw: as many pictures of each prompt, so that a batch is full.
constexpr Axis kBatchOfPictures = {
    "--batch", "draw.batch_size", "picture", 1, 1024, [](Settings& settings, std::int64_t value) {
      DrawSettings& draw = settings.draw;
      draw.batch_size = value;
      draw.num_images_per_prompt = std::max(draw.num_images_per_prompt, value);
    }};

// The settings with a value of the axis. Throws Error for one that they cannot have.
Settings with_value(Settings settings, const Axis& axis, std::int64_t value) {
  if (value < axis.least || value > axis.most)
    throw Error(ErrorKind::kSettings, axis.option, count_of(value, axis.unit),
                "write numbers from " + std::to_string(axis.least) + " to " + std::to_string(axis.most));
  axis.set(settings, value);
  settings.origin.where[axis.key] = axis.option;
  check_settings(settings);
  return settings;
}

std::string simulated_name(int threads) { return std::to_string(threads) + " simulated"; }

MachineLimits limits_with(int threads, const Settings& settings, Isa isa) {
  const GemmType type = settings.model.precision == Precision::kBf16 ? GemmType::kBf16 : GemmType::kFloat32;
  return measure_limits(settings.machine.products, type, kernels_for(isa, settings.machine), threads);
}

// Once it is known that all columns can be measured.
void begin(const Settings& settings, Isa isa, BenchSubject* bench) {
  if (settings.distributed.world_size > 1)
    say("measuring one rank of " + std::to_string(settings.distributed.world_size) + ", alone");
  bench->settings_file = settings.origin.file;
  bench->isa = isa_text(isa, settings.machine, settings.model.precision);
  bench->is_bf16 = settings.model.precision == Precision::kBf16;
}

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
  return arguments.axis == BenchAxis::kThreads && (arguments.simulates || threads > usable_cores());
}

// Of columns with other numbers of threads. This machine's own where it has as many cores: also of simulated threads.
class LimitsByThreads {
 public:
  LimitsByThreads(const Settings& settings, Isa isa) : settings_(settings), isa_(isa) {}
  MachineLimits with(int threads, bool simulates) {
    if (!simulates || threads <= usable_cores()) return limits_with(threads, settings_, isa_);
    return limits_of_server(one_thread(), threads);
  }
  // Of simulated threads with these limits.
  MemoryRate memory(int threads, const MachineLimits& limits) {
    if (threads > usable_cores()) return {limits.gigabytes_per_second};
    return {limits.gigabytes_per_second,
            threads == 1 ? limits.gigabytes_per_second : one_thread().gigabytes_per_second};
  }

 private:
  const MachineLimits& one_thread() {
    if (!one_thread_) one_thread_ = limits_with(1, settings_, isa_);
    return *one_thread_;
  }

  const Settings& settings_;
  const Isa isa_;
  std::optional<MachineLimits> one_thread_;  // of all columns
};

// memory: of threads that are simulated.
BenchColumn measure(const ColumnSettings& column, const BenchArguments& arguments, Isa isa, const MachineLimits& limits,
                    const MemoryRate& memory) {
  const std::unique_ptr<RecordedRun> run = record_column(column);
  const std::int64_t batch = run->data.plan.streams.front().bounds.samples();  // fewer where there are fewer rows
  const bool varies_batch = arguments.axis == BenchAxis::kBatch && !arguments.values.empty();
  const std::string name = varies_batch ? count_of(batch, "sample") : column.name;
  say("measuring " + std::to_string(arguments.warmup) + " + " + std::to_string(arguments.steps) +
      (column.settings.training.do_train                ? " steps"
       : column.settings.training.predict_with_generate ? " batches of texts"
                                                        : " batches of the evaluation") +
      " with " + count_of(column.settings.data.dataloader_num_workers, "worker") + ", media engine " +
      media_engine_query(column.engine).name + (arguments.axis == BenchAxis::kWorkers ? "" : ", " + name));
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
    limit_by_memory(&steps, batches, update_bytes, run->threads, memory);
    if (run->threads >= usable_cores()) share_cores_with_loader(&steps, run->threads);
    lost = lost_time(steps.nodes, static_cast<double>(steps.micro_batches), run->threads);
  }
  BenchColumn figures = figures_of(steps, *run, limits);
  figures.threads = run->threads;
  figures.lost = std::move(lost);
  figures.name = simulates ? simulated_name(run->threads) : name;
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
  for (const std::int64_t value : arguments.values)
    add(only_steps(with_value(with_use(settings, arguments), axis, value), arguments),
        varies_workers ? media_engine_host() : media_engine_builtin(), value);
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
      for (const std::string& note : run->notes) say(note);
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

BenchDrawing bench_drawing(const BenchArguments& arguments, const Settings& settings) {
  if (!arguments.use.empty() && arguments.use != "draw")
    throw Error(ErrorKind::kSettings, "--use " + arguments.use, "the run draws pictures", "leave it out");
  const bool can_vary = arguments.axis == BenchAxis::kBatch || arguments.axis == BenchAxis::kSide ||
                        arguments.axis == BenchAxis::kThreads;
  const char* const option = !arguments.values.empty() && !can_vary ? option_of(arguments.axis)
                             : arguments.new_tokens > 0             ? "--new-tokens"
                                                                    : nullptr;
  if (option != nullptr) throw Error(ErrorKind::kSettings, option, "does not apply to a run that draws");
  const Isa isa = choose_isa(settings.machine, settings.model.precision);
  // The run alone, and without its noise file: noise of another size takes as long.
  Settings alone = settings;
  alone.distributed.world_size = 1;
  alone.draw.latents_file = {};
  const Axis& axis = arguments.axis == BenchAxis::kBatch ? kBatchOfPictures : kAxes[static_cast<int>(arguments.axis)];
  std::vector<Settings> columns;
  for (const std::int64_t value : arguments.values) columns.push_back(with_value(alone, axis, value));
  if (columns.empty()) columns.push_back(alone);
  std::vector<std::string> names;
  for (const Settings& own : columns) {
    const std::unique_ptr<RecordedDrawRun> run = record_draw_run(own);
    check_fits(*run, limits_here(own.machine, read_process_limits()));
    const bool simulates = is_simulated(arguments, run->threads);
    for (const std::string& note : run->notes) {
      if (names.empty() && !simulates) say(note);
    }
    names.push_back(arguments.values.empty() ? count_of(run->options.batch, "picture")
                    : simulates              ? simulated_name(run->threads)
                                             : count_of(arguments.values[names.size()], axis.unit));
  }
  BenchDrawing bench;
  LimitsByThreads limits(settings, isa);
  MemoryRate memory;
  begin(settings, isa, &bench);
  for (const Settings& own : columns) {
    const std::unique_ptr<RecordedDrawRun> run = record_draw_run(own);
    const std::string& name = names[bench.columns.size()];
    const bool simulates = is_simulated(arguments, run->threads);
    if (bench.columns.empty() || arguments.axis == BenchAxis::kThreads) {
      bench.threads = run->threads;
      bench.limits = limits.with(run->threads, simulates);
      if (simulates) memory = limits.memory(run->threads, bench.limits);
    }
    say("measuring " + std::to_string(arguments.warmup) + " + " + std::to_string(arguments.steps) +
        " replays of each stage, " + name);
    const MeasuredDrawing measured = measure_drawing(*run, isa, arguments.warmup, arguments.steps, simulates);
    bench.columns.push_back(drawing_figures_of(measured, *run, bench.limits, simulates ? &memory : nullptr));
    bench.columns.back().name = name;
  }
  return bench;
}

Bench bench_steps(const BenchArguments& arguments, const Settings& settings) {
  const Isa isa = choose_isa(settings.machine, settings.model.precision);
  const std::vector<ColumnSettings> columns = columns_of(settings, arguments);
  Bench bench;
  begin(settings, isa, &bench);
  bench.names_engines = arguments.axis == BenchAxis::kWorkers || arguments.values.empty();
  bench.trains = columns.front().settings.training.do_train;
  bench.generates = columns.front().settings.training.predict_with_generate && !bench.trains;
  LimitsByThreads limits(settings, isa);
  MemoryRate memory;
  for (const ColumnSettings& column : columns) {
    if (bench.columns.empty() || arguments.axis == BenchAxis::kThreads) {
      bench.threads = compute_threads(column.settings.machine, RankPlace{});
      const bool simulates = is_simulated(arguments, bench.threads);
      bench.limits = limits.with(bench.threads, simulates);
      if (simulates) memory = limits.memory(bench.threads, bench.limits);
    }
    bench.columns.push_back(measure(column, arguments, isa, bench.limits, memory));
  }
  return bench;
}

}  // namespace

const char* option_of(BenchAxis axis) { return kAxes[static_cast<int>(axis)].option; }

int bench_command(const BenchArguments& arguments) {
  const Settings settings = settings_of_run(arguments.settings, model_words);
  refuse_serving(settings);
  const auto print = [&](const auto& bench) {
    std::fputs((arguments.json ? bench_json(bench) : bench_text(bench)).c_str(), stdout);
  };
  if (settings.draw.is_given) {
    print(bench_drawing(arguments, settings));
    return 0;
  }
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
  print(bench_steps(arguments, settings));
  return 0;
}

SimulatedSpeed simulate_speed(const Settings& settings, int threads) {
  BenchArguments arguments;
  arguments.warmup = 1;
  arguments.axis = BenchAxis::kThreads;
  arguments.values = {threads};
  arguments.simulates = true;
  arguments.steps = settings.draw.is_given ? 2 : 3;
  const auto speed_of = [](const auto& bench) {
    return SimulatedSpeed{simulated_text(bench), column_json(bench.columns.back())};
  };
  return settings.draw.is_given ? speed_of(bench_drawing(arguments, settings))
                                : speed_of(bench_steps(arguments, settings));
}

}  // namespace bascule
