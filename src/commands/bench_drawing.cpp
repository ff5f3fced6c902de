// SPDX-License-Identifier: Apache-2.0
#include "src/commands/bench_drawing.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "src/base/count_of.h"
#include "src/base/error.h"
#include "src/machine/process_limits.h"
#include "src/runtime/choose_isa.h"

namespace bascule {
namespace {

struct DrawingAxis {
  const char* option;
  const char* key;
  const char *unit, *unit_of_one;
  std::int64_t most;  // as in the settings
  void (*set)(DrawSettings& draw, std::int64_t value);
};
// As many pictures of each prompt, so that a batch is full.
constexpr DrawingAxis kBatch = {
    "--batch", "draw.batch_size", "pictures", "picture", 1024, [](DrawSettings& draw, std::int64_t value) {
      draw.batch_size = value;
      draw.num_images_per_prompt = std::max(draw.num_images_per_prompt, value);
    }};
constexpr DrawingAxis kSide = {
    "--side", "draw.height", "pixels",
    "pixel",  8192,          [](DrawSettings& draw, std::int64_t value) { draw.height = draw.width = value; }};

void check_arguments(const BenchArguments& arguments) {
  if (!arguments.use.empty() && arguments.use != "draw")
    throw Error(ErrorKind::kSettings, "--use " + arguments.use, "the run draws pictures", "leave it out");
  const bool can_vary = arguments.axis == BenchAxis::kBatch || arguments.axis == BenchAxis::kSide;
  const char* const option = !arguments.values.empty() && !can_vary ? option_of(arguments.axis)
                             : arguments.new_tokens > 0             ? "--new-tokens"
                                                                    : nullptr;
  if (option != nullptr) throw Error(ErrorKind::kSettings, option, "does not apply to a run that draws");
}

// The run alone, and without its noise file: noise of another size takes as long.
Settings only_stages(Settings settings) {
  settings.distributed.world_size = 1;
  settings.draw.latents_file = {};
  return settings;
}

// One column's settings for each value, or the file's own. Throws Error for what cannot be measured.
std::vector<std::pair<std::string, Settings>> drawing_columns_of(const Settings& settings,
                                                                 const BenchArguments& arguments) {
  std::vector<std::pair<std::string, Settings>> columns;
  const DrawingAxis& axis = arguments.axis == BenchAxis::kSide ? kSide : kBatch;
  for (const std::int64_t value : arguments.values) {
    const std::string name = std::to_string(value) + " " + (value == 1 ? axis.unit_of_one : axis.unit);
    if (value < 1 || value > axis.most)
      throw Error(ErrorKind::kSettings, axis.option, name, "write numbers from 1 to " + std::to_string(axis.most));
    Settings own = only_stages(settings);
    axis.set(own.draw, value);
    own.origin.where[axis.key] = axis.option;
    columns.emplace_back(name, own);
  }
  if (columns.empty()) columns.emplace_back("", only_stages(settings));
  bool is_first = true;
  for (auto& [name, own] : columns) {
    const std::unique_ptr<RecordedDrawRun> run = record_draw_run(own);
    check_drawing_fits(*run, read_process_limits());
    if (name.empty()) name = count_of(run->options.batch, "picture");
    for (const std::string& note : run->notes) {
      if (is_first) std::fprintf(stderr, "bascule: %s\n", note.c_str());
    }
    is_first = false;
  }
  return columns;
}

}  // namespace

int bench_drawing(const BenchArguments& arguments, const Settings& settings) {
  check_arguments(arguments);
  const Isa isa = choose_isa(isa_word(settings.machine.isa));
  const std::vector<std::pair<std::string, Settings>> columns = drawing_columns_of(settings, arguments);
  if (settings.distributed.world_size > 1) {
    std::fprintf(stderr, "bascule: bench: measuring one rank of %lld, alone\n",
                 static_cast<long long>(settings.distributed.world_size));
  }
  BenchDrawing bench;
  bench.settings_file = settings.origin.file;
  bench.isa = isa_name(isa);
  bench.is_bf16 = settings.model.precision == Precision::kBf16;
  for (const auto& [name, own] : columns) {
    const std::unique_ptr<RecordedDrawRun> run = record_draw_run(own);
    if (bench.columns.empty()) {
      bench.threads = run->threads;
      bench.limits =
          measure_limits(own.machine.products, bench.is_bf16 ? GemmType::kBf16 : GemmType::kFloat32, isa, run->threads);
    }
    std::fprintf(stderr, "bascule: bench: %lld + %lld replays of each stage, %s\n",
                 static_cast<long long>(arguments.warmup), static_cast<long long>(arguments.steps), name.c_str());
    const MeasuredDrawing measured = measure_drawing(*run, isa, arguments.warmup, arguments.steps);
    bench.columns.push_back(drawing_figures_of(measured, *run, bench.limits));
    bench.columns.back().name = name;
  }
  std::fputs((arguments.json ? bench_drawing_json(bench) : bench_drawing_text(bench)).c_str(), stdout);
  return 0;
}

}  // namespace bascule
