// SPDX-License-Identifier: Apache-2.0
#include "src/draw_run/recorded_draw_run.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "src/base/error.h"
#include "src/records/readable.h"
#include "src/runtime/threads.h"

namespace bascule {
namespace {

// Memory of the process beside its arena: the program and its libraries, graphs and tapes.
constexpr std::size_t kOutsideBytes = std::size_t{48} << 20;

// A picture's sides, those of the model where none are written.
void read_sides(const Settings& settings, const Pipeline& pipeline, DrawingOptions* options) {
  for (const auto& [key, written, side] : {std::tuple{"draw.height", settings.draw.height, &options->height},
                                           std::tuple{"draw.width", settings.draw.width, &options->width}}) {
    *side = written > 0 ? written : pipeline.default_side();
    if (*side == 0)
      throw Error(ErrorKind::kSettings, where_written(settings, key),
                  std::string(key) + " is missing, and the model folder names no size", "write it");
    check_picture_side(pipeline, *side, where_written(settings, key), key);
  }
}

MemoryPlan plan_of(const Pipeline& pipeline, const SamplingProgram& program, const DrawingOptions& options, int threads,
                   Session* session, RecordedDrawing* recorded) {
  *recorded = record_drawing(session, pipeline, options, program);
  std::vector<PlannedRange> ranges = session->plan(threads);
  ranges.push_back({kDrawingMemory, Drawer(pipeline, *recorded, program).bytes()});
  ranges.push_back({kPictureMemory, static_cast<std::size_t>(3 * options.height * options.width)});
  MemoryPlan plan = make_memory_plan(std::move(ranges), kOutsideBytes);
  plan.workspace_lower_bound_bytes = session->workspace_lower_bound_bytes();
  plan.largest = session->largest(8);
  return plan;
}

// The largest square picture that fits, in pixels a side; 0: none.
std::int64_t largest_side(const RecordedDrawRun& run, std::size_t limit) {
  const std::int64_t unit = std::max<std::int64_t>(8, run.pipeline.factor());
  const auto fits = [&](std::int64_t side) {
    DrawingOptions options = run.options;
    options.height = options.width = side;
    Session session;
    RecordedDrawing recorded;
    return plan_of(run.pipeline, run.program, options, run.threads, &session, &recorded).peak_bytes() <= limit;
  };
  std::int64_t fitting = 0, failing = (std::max(run.options.height, run.options.width) / unit + 1) * unit;
  while (failing - fitting > unit) {
    const std::int64_t middle = (fitting + failing) / 2 / unit * unit;
    (fits(middle) ? fitting : failing) = middle;
  }
  return fitting;
}

}  // namespace

std::unique_ptr<RecordedDrawRun> record_draw_run(const Settings& settings) {
  auto run = std::make_unique<RecordedDrawRun>();
  run->settings = settings;
  run->pipeline = open_pipeline(settings.model.model_name_or_path.resolved);
  run->notes = run->pipeline.notes;
  const SamplerOptions sampler =
      read_sampler_options(run->pipeline.scheduler_file(), settings.draw.scheduler, settings.draw.timestep_spacing);
  run->program = sampling_program(sampler, static_cast<int>(settings.draw.num_inference_steps));
  const PromptTokenizer tokenizer(
      run->pipeline, settings.model.tokenizer_name.written.empty() ? "" : settings.model.tokenizer_name.resolved);
  run->list = list_pictures(settings, tokenizer);
  run->notes.insert(run->notes.end(), run->list.notes.begin(), run->list.notes.end());
  DrawingOptions& options = run->options;
  options.guidance = static_cast<float>(settings.draw.guidance_scale);
  options.batch = std::min(settings.draw.batch_size, static_cast<std::int64_t>(run->list.pictures.size()));
  options.prompts = std::min(static_cast<std::int64_t>(run->list.texts.size()), options.rows());
  read_sides(settings, run->pipeline, &options);
  run->threads = threads_within(read_process_limits(), usable_cores(), 1);
  if (settings.machine.threads > 0) run->threads = static_cast<int>(settings.machine.threads);
  run->plan = plan_of(run->pipeline, run->program, options, run->threads, &run->session, &run->recorded);
  return run;
}

void check_drawing_fits(const RecordedDrawRun& run, const ProcessLimits& limits) {
  const double gib = run.settings.machine.memory_limit_gib;
  const std::size_t limit = gib > 0.0 ? static_cast<std::size_t>(gib * 1073741824.0) : limits.memory_bytes;
  const std::size_t needed = run.plan.peak_bytes();
  if (needed <= limit) return;
  const std::string owner = gib > 0.0 ? "machine.memory_limit_gib" : limits.memory_owner;
  const std::int64_t side = largest_side(run, limit);
  throw Error(ErrorKind::kMemory, "",
              "the plan needs " + std::string(readable_bytes(needed).c_str()) + ", but " + owner + " allows " +
                  readable_bytes(limit).c_str(),
              side > 0 ? "pictures of " + std::to_string(side) + " x " + std::to_string(side) + " pixels would fit" +
                             (run.options.batch > 1 ? "; so may a smaller draw.batch_size" : "")
              : run.options.batch > 1 ? "use a smaller draw.batch_size"
                                      : "no size of pictures fits");
}

}  // namespace bascule
