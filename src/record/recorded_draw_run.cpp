// SPDX-License-Identifier: Apache-2.0
#include "src/record/recorded_draw_run.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "src/base/error.h"
#include "src/base/readable.h"
#include "src/checkpoint/hf_folder.h"
#include "src/runtime/choose_isa.h"

namespace bascule {
namespace {

InputList listed(const RecordedDrawRun& run, bool resolved) {
  const auto path = [&](const PathSetting& setting) { return resolved ? setting.resolved : setting.written; };
  const ModelSettings& model = run.settings.model;
  const std::string folder = path(model.model_name_or_path);
  InputList inputs;
  inputs.add(folder, "model_index.json");
  inputs.add(folder + "/scheduler", "scheduler_config.json");
  for (const Part* part : {&run.pipeline.text_encoder, &run.pipeline.noise_predictor, &run.pipeline.decoder}) {
    const std::string of_part = folder + "/" + part->name;
    inputs.add(of_part, "config.json");
    if (model.from_scratch) continue;
    for (std::string& file : hf_weight_files(part->folder, part->stem)) inputs.add(of_part, std::move(file));
  }
  const bool has_own = model.tokenizer_name.is_given();
  inputs.add_found(has_own ? path(model.tokenizer_name) : folder + "/tokenizer",
                   has_own ? model.tokenizer_name.resolved : run.pipeline.tokenizer_folder(), kTokenizerFiles);
  for (const PathSetting* file : {&run.settings.draw.prompts_file, &run.settings.draw.latents_file}) {
    if (file->is_given()) inputs.add_path(path(*file));
  }
  return inputs;
}

}  // namespace

std::vector<InputFolder> draw_inputs(const RecordedDrawRun& run) { return listed(run, false).sorted(); }

std::vector<std::string> draw_input_paths(const RecordedDrawRun& run) {
  std::vector<std::string> paths;
  for (const InputFolder& one : listed(run, true).sorted()) {
    for (const std::string& file : one.files) paths.push_back(one.folder + "/" + file);
  }
  return paths;
}

namespace {

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

// Records the graphs and the files of pictures of that size, and plans them.
void plan_run(RecordedDrawRun* run) {
  const DrawingOptions& options = run->options;
  run->recorded = record_drawing(&run->session, run->pipeline, options, run->program);
  run->files =
      std::make_unique<PictureFiles>(run->list, options.width, options.height, run->latent_digests(), run->settings);
  const int ranks = run->place.local_size;
  std::vector<PlannedRange> ranges = {{kDrawingMemory, Drawer(run->pipeline, run->recorded, run->program).bytes()},
                                      {kPictureMemory, run->files_offset() + run->files->bytes()}};
  if (ranks > 1) ranges.push_back({kQueueMemory, DrawnQueue::bytes(ranks, options.batch, run->latent_digests()), true});
  run->plan_memory(ranges);
}

// The program of the folder's scheduler for these settings; its errors name the key.
SamplingProgram program_of(const Settings& settings, const Pipeline& pipeline) {
  const DrawSettings& draw = settings.draw;
  try {
    return sampling_program(read_sampler_options(pipeline.scheduler_file(), draw.scheduler, draw.timestep_spacing),
                            static_cast<int>(draw.num_inference_steps));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kSettings) throw;
    const std::string key = "draw." + error.where();
    throw Error(ErrorKind::kSettings, where_written(settings, key), key + ": " + error.problem(), error.what_to_do());
  }
}

// Everything up to the size of pictures.
std::unique_ptr<RecordedDrawRun> begin_run(const Settings& settings, const RankPlace& place) {
  auto run = std::make_unique<RecordedDrawRun>(settings, place, compute_threads(settings.machine, place));
  run->pipeline = open_pipeline(settings.model.model_name_or_path.resolved);
  run->notes = run->pipeline.notes;
  if (const std::string note = note_on_bf16(settings.machine, settings.model.precision); !note.empty())
    run->notes.push_back(note);
  run->program = program_of(settings, run->pipeline);
  const PromptTokenizer tokenizer(
      run->pipeline, settings.model.tokenizer_name.is_given() ? settings.model.tokenizer_name.resolved : "");
  run->list = list_pictures(settings, tokenizer);
  run->tokenizer_digest = tokenizer.digest();
  run->notes.insert(run->notes.end(), run->list.notes.begin(), run->list.notes.end());
  DrawingOptions& options = run->options;
  options.guidance = static_cast<float>(settings.draw.guidance_scale);
  options.precision = settings.model.precision;
  options.batch = std::min(settings.draw.batch_size, static_cast<std::int64_t>(run->list.pictures.size()));
  options.prompts = std::min(static_cast<std::int64_t>(run->list.texts.size()), options.rows());
  return run;
}

// The values that a remedy changes.
struct DrawingSize {
  std::int64_t height, width, batch;
  int ranks;
  Precision precision;
};

// Bytes of the plan of the same run in that size.
std::size_t bytes_with(const RecordedDrawRun& run, const DrawingSize& size) {
  Settings settings = run.settings;
  settings.draw.batch_size = size.batch;
  settings.model.precision = size.precision;
  RankPlace place = run.place;
  if (size.ranks != place.local_size) {
    place = {};
    place.world_size = place.local_size = size.ranks;
  }
  const std::unique_ptr<RecordedDrawRun> other = begin_run(settings, place);
  other->options.height = size.height;
  other->options.width = size.width;
  plan_run(other.get());
  return other->plan.peak_bytes();
}

// The largest square picture that fits, in pixels a side; 0: none.
template <typename Fits>
std::int64_t largest_side(const RecordedDrawRun& run, DrawingSize size, const Fits& fits) {
  const std::int64_t unit = std::max<std::int64_t>(8, run.pipeline.factor());
  std::int64_t fitting = 0, failing = (std::max(size.height, size.width) / unit + 1) * unit;
  while (failing - fitting > unit) {
    size.height = size.width = (fitting + failing) / 2 / unit * unit;
    (fits(size) ? fitting : failing) = size.height;
  }
  return fitting;
}

std::string side_text(std::int64_t side) {
  return "pictures of " + std::to_string(side) + " x " + std::to_string(side) + " pixels";
}

std::size_t weights_of(const RecordedDrawRun& run) {
  std::size_t bytes = 0;
  for (const PlannedRange& range : run.plan.categories)
    bytes += range.name.rfind("parameters, ", 0) == 0 ? range.bytes : 0;
  return bytes;
}

// Advises what was planned and fits: one change, else all of them together.
std::string advice_for_size(const RecordedDrawRun& run, std::size_t limit) {
  const auto fits = [&](const DrawingSize& size) { return bytes_with(run, size) <= limit; };
  const DrawingSize asked = {run.options.height, run.options.width, run.options.batch, run.place.local_size,
                             run.settings.model.precision};
  DrawingSize least = asked;
  std::vector<std::string> some, all;
  if (const std::int64_t side = largest_side(run, asked, fits); side > 0) some.push_back(side_text(side));
  const auto try_one = [&](auto DrawingSize::*member, auto value, const std::string& text) {
    DrawingSize other = asked;
    other.*member = least.*member = value;
    all.push_back(text);
    if (fits(other)) some.push_back(text);
  };
  if (asked.batch > 1) try_one(&DrawingSize::batch, std::int64_t{1}, "draw.batch_size = 1");
  if (asked.ranks > 1) try_one(&DrawingSize::ranks, 1, "distributed.world_size = 1");
  const DrawingSize full = least;  // bf16 takes more where pictures are small
  const std::vector<std::string> of_full = all;
  if (asked.precision == Precision::kFloat32 && run.settings.machine.products != Products::kOnednn)
    try_one(&DrawingSize::precision, Precision::kBf16, "model.precision = \"bf16\"");
  if (!some.empty()) return or_list(some) + " would fit";
  for (const auto& [size, words] : {std::pair{full, of_full}, std::pair{least, all}}) {
    std::vector<std::string> together = words;
    if (!fits(size)) {
      const std::int64_t side = largest_side(run, size, fits);
      if (side == 0) continue;
      together.push_back(side_text(side));
    }
    return and_list(together) + " would fit together";
  }
  return "no size of pictures fits: the weights alone take " + std::string(readable_bytes(weights_of(run)).c_str());
}

// The noise of all pictures.
TensorSource open_latents(const RecordedDrawRun& run) {
  const PathSetting& file = run.settings.draw.latents_file;
  TensorSource source = open_safetensors(file.resolved);
  const StoredTensor* const stored = source.find(kLatentsTensor);
  if (stored == nullptr)
    throw Error(ErrorKind::kData, file.shown(), "has no tensor \"latents\"", "write the noise of all pictures into it");
  const std::vector<std::int64_t> needed = {static_cast<std::int64_t>(run.list.pictures.size()),
                                            run.recorded.latents.channels, run.recorded.shape.height,
                                            run.recorded.shape.width};
  if (stored->shape != needed)
    throw Error(ErrorKind::kData, file.shown(),
                "\"latents\" has shape " + shape_text(stored->shape) + ", but the pictures need " + shape_text(needed));
  constexpr DType kNumbers[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64};
  if (std::find(std::begin(kNumbers), std::end(kNumbers), stored->dtype) == std::end(kNumbers))
    throw Error(ErrorKind::kData, file.shown(), "\"latents\" has integers", "write floating-point numbers");
  return source;
}

}  // namespace

std::unique_ptr<RecordedDrawRun> record_draw_run(const Settings& settings, const RankPlace& place) {
  std::unique_ptr<RecordedDrawRun> run = begin_run(settings, place);
  read_sides(settings, run->pipeline, &run->options);
  plan_run(run.get());
  if (settings.draw.latents_file.is_given()) run->latents = open_latents(*run);
  return run;
}

void check_fits(const RecordedDrawRun& run, const std::vector<MemoryLimit>& limits) {
  for (const MemoryLimit& limit : limits) {
    const std::size_t needed = run.plan.peak_bytes();
    if (limit.kind == LimitKind::kMemory && needed > limit.bytes)
      throw too_large(run, limit, "the plan", needed, advice_for_size(run, limit.bytes));
  }
}

}  // namespace bascule
