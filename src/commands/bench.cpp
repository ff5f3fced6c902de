// SPDX-License-Identifier: Apache-2.0
#include "src/commands/bench.h"
#include "src/train/model_words.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "firmware_shims/media_engine.h"
#include "src/base/error.h"
#include "src/commands/bench_figures.h"
#include "src/pictures/media_options.h"
#include "src/runtime/choose_isa.h"
#include "src/runtime/choose_products.h"
#include "src/settings/run_settings.h"
#include "src/train/check_fits.h"
#include "src/train/measured_steps.h"

namespace bascule {
namespace {

// The same run without anything but training steps.
Settings only_steps(Settings settings, const BenchArguments& arguments, std::int64_t workers) {
  settings.training.do_train = true;
  settings.training.do_eval = settings.training.do_predict = false;
  settings.training.max_steps = arguments.warmup + arguments.steps;
  settings.distributed.world_size = 1;
  settings.data.dataloader_num_workers = workers;
  return settings;
}

struct Column {
  Settings settings;
  const media_engine_driver* engine;
};

BenchColumn measure(const Column& column, const BenchArguments& arguments, Isa isa, const MachineLimits& limits) {
  const std::unique_ptr<RecordedRun> run = record_run(column.settings, RankPlace{}, column.engine);
  const std::int64_t workers = column.settings.data.dataloader_num_workers;
  std::fprintf(stderr, "bascule: bench: %lld + %lld steps with %lld workers, media engine %s\n",
               static_cast<long long>(arguments.warmup), static_cast<long long>(arguments.steps),
               static_cast<long long>(workers), media_engine_query(column.engine).name);
  const MeasuredSteps steps = measure_steps(*run, isa, arguments.warmup, arguments.steps);
  BenchColumn figures = figures_of(steps, *run, limits);
  figures.workers = workers;
  return figures;
}

// Throws Error for what cannot be measured, before anything is.
std::vector<Column> columns_of(const Settings& settings, const BenchArguments& arguments) {
  std::vector<Column> columns;
  for (const std::int64_t count : arguments.workers) {
    if (count < 0 || count > 1024) {
      throw Error(ErrorKind::kSettings, "--workers", std::to_string(count) + " workers",
                  "write numbers from 0 to 1024");
    }
    columns.push_back({only_steps(settings, arguments, count), media_engine_host()});
  }
  if (columns.empty() || media_engine_builtin() != media_engine_host()) {
    columns.push_back({only_steps(settings, arguments, settings.data.dataloader_num_workers), media_engine_builtin()});
  }
  for (const Column& column : columns) {
    const std::unique_ptr<RecordedRun> run = record_run(column.settings, RankPlace{}, column.engine);
    if (&column == &columns.front()) {
      for (const std::string& note : run->notes) std::fprintf(stderr, "bascule: %s\n", note.c_str());
    }
    const ProcessLimits now = read_process_limits();
    check_fits(*run, now, limits_here(column.settings, now));
  }
  return columns;
}

}  // namespace

int bench_command(const BenchArguments& arguments) {
  const Settings settings = settings_of_run(arguments.settings_file, model_words);
  refuse_unsupported(settings);
  require_products(settings);
  (void)media_options(settings, media_engine_builtin());  // says what is wrong there before anything is measured
  if (!settings.training.do_train) {
    throw Error(ErrorKind::kSettings, where_written(settings, "training.do_train"),
                "the run does not train: nothing to measure", "set do_train = true");
  }
  const Isa isa = choose_isa(isa_word(settings.machine.isa));
  const std::vector<Column> columns = columns_of(settings, arguments);
  if (settings.distributed.world_size > 1) {
    std::fprintf(stderr, "bascule: bench: measuring one rank of %lld, alone\n",
                 static_cast<long long>(settings.distributed.world_size));
  }
  Bench bench;
  bench.settings_file = settings.origin.file;
  bench.isa = isa_name(isa);
  bench.is_bf16 = settings.model.precision == Precision::kBf16;
  bench.threads = compute_threads(settings, RankPlace{});
  {
    Threads threads(bench.threads, bench.threads == usable_cores());
    const std::string packed = "packed operands";
    const GemmType type = settings.model.precision == Precision::kBf16 ? GemmType::kBf16 : GemmType::kFloat32;
    const MemoryPlan memory =
        make_memory_plan({{packed, products_bytes(settings.machine.products, type, bench.threads)}}, 0);
    const Arena arena(memory, settings.machine.huge_pages);
    const auto products =
        make_products(settings.machine.products, type, kernels_for(isa), bench.threads, arena.at(memory[packed]));
    bench.limits = measure_limits(threads, *products, type);
  }
  for (const Column& column : columns) bench.columns.push_back(measure(column, arguments, isa, bench.limits));
  std::fputs((arguments.json ? bench_json(bench) : bench_text(bench)).c_str(), stdout);
  return 0;
}

}  // namespace bascule
