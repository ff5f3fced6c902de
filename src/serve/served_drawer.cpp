// SPDX-License-Identifier: Apache-2.0
#include "src/serve/served_drawer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/serve/served_model.h"
#include "src/settings/command_line_keys.h"

namespace bascule {
namespace {

DrawingOptions options_of(const Pipeline& pipeline, double guidance_scale, Precision precision) {
  DrawingOptions options;
  options.height = options.width = pipeline.default_side();
  if (options.height == 0)
    throw Error(ErrorKind::kData, pipeline.folder, "its UNet's config.json names no size of pictures (sample_size)");
  options.guidance = static_cast<float>(guidance_scale);
  options.precision = precision;
  options.prompts = options.rows();
  return options;
}

SamplingProgram program_of(const Pipeline& pipeline, std::int64_t steps, const SettingsOrigin& origin) {
  try {
    return sampling_program(read_sampler_options(pipeline.scheduler_file(), "default", ""), static_cast<int>(steps));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kSettings) throw;
    const std::string key = "serve." + error.where();
    throw Error(ErrorKind::kSettings, where_written(origin, key), key + ": " + error.problem(), error.what_to_do());
  }
}

}  // namespace

ServedDrawer::ServedDrawer(const ModelSettings& model, const ServeSettings& serve, const SettingsOrigin& origin)
    : pipeline_(open_pipeline(model.model_name_or_path.resolved)),
      tokenizer_(pipeline_, model.tokenizer_name.is_given() ? model.tokenizer_name.resolved : ""),
      steps_(serve.num_inference_steps),
      program_(program_of(pipeline_, steps_, origin)),
      options_(options_of(pipeline_, serve.guidance_scale, model.precision)),
      file_bytes_(PngWriter(file_limits()).bytes()) {
  for (const std::string& note : pipeline_.notes) std::fprintf(stderr, "bascule: %s\n", note.c_str());
}

void ServedDrawer::record(Session* session) {
  recorded_ = record_drawing(session, pipeline_, options_, program_);
  bytes_ = align_up(Drawer(pipeline_, recorded_, program_).bytes(), kCacheLine) + align_up(file_bytes_, kCacheLine) +
           static_cast<std::size_t>(numbers());
}

PictureDrawer::PictureDrawer(const ServedDrawer& served, const Tapes& tapes, std::byte* memory)
    : served_(served), drawer_(served.pipeline(), served.recorded(), served.program()), png_(served.file_limits()) {
  drawer_.seal(memory, tapes);
  memory += align_up(drawer_.bytes(), kCacheLine);
  png_.seal(memory);
  pixels_ = static_cast<std::uint8_t*>(static_cast<void*>(memory + align_up(png_.bytes(), kCacheLine)));
}

void PictureDrawer::draw(ServedInput* input, Threads& threads) noexcept {
  const std::size_t tokens = static_cast<std::size_t>(served_.pipeline().prompt_tokens());
  const Span<const std::int32_t> prompt{input->ids, tokens}, negative{input->ids + tokens, tokens};
  const DrawnPrompt places = {0, served_.options().is_guided() ? 1 : 0};
  drawer_.keep_prompt(places.prompt, prompt, threads);
  if (served_.options().is_guided()) drawer_.keep_prompt(places.negative, negative, threads);
  drawer_.draw_noise(0, input->seed, 0);
  for (std::size_t call = 0; call < served_.program().calls.size(); ++call) {
    drawer_.call(call, {&places, 1}, threads);
    if (input->is_dropped) return;  // its client has gone
  }
  drawer_.decode(0, threads);
  input->is_finite =
      std::all_of(drawer_.picture(), drawer_.picture() + served_.numbers(), [](float x) { return std::isfinite(x); });
  if (!input->is_finite || input->file == nullptr) return;
  fill_picture_bytes(pixels_, drawer_.picture(), served_.numbers());
  std::string_view file;
  if (!png_.encode({pixels_, served_.options().width, served_.options().height}, {}, &file).ok()) return;
  std::copy(file.begin(), file.end(), input->file);
  input->file_bytes = file.size();
}

double PictureDrawer::measure(Threads& threads) noexcept {
  const DrawnPrompt places = {0, served_.options().is_guided() ? 1 : 0};
  drawer_.draw_noise(0, 0, 0);
  drawer_.call(0, {&places, 1}, threads);  // finds nothing in caches
  const std::int64_t begun = monotonic_ns();
  drawer_.call(0, {&places, 1}, threads);
  const std::int64_t called = monotonic_ns();
  drawer_.decode(0, threads);
  return static_cast<double>(called - begun) * static_cast<double>(served_.program().calls.size()) +
         static_cast<double>(monotonic_ns() - called);
}

}  // namespace bascule
