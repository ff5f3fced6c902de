// SPDX-License-Identifier: Apache-2.0
// A UNet whose graph has the rows of its prompts, as a gradient needs them, beside the one that draws and keeps their
// keys and values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/table.h"
#include "src/generate/drawer.h"
#include "src/generate/pipeline.h"
#include "src/generate/samplers.h"
#include "tests/support/reference_dir.h"

namespace bascule::test {
namespace {

constexpr std::int64_t kPictureCount = 2;

DrawingOptions options_without_guidance() {
  DrawingOptions options;
  options.batch = kPictureCount;
  options.height = 16;
  options.width = 24;
  options.prompts = kPictureCount;
  options.guidance = 1.0f;
  return options;
}

TEST(PromptsInGraph, GiveTheBitsOfKeysAndValuesThatAreKept) {
  const Pipeline pipeline = open_pipeline(reference_dir() + "/goldens-families/sd_v1");
  const SamplingProgram program =
      sampling_program(read_sampler_options(pipeline.scheduler_file(), "ddim", ""), 3);  // scales no input
  Session session;
  const RecordedDrawing recorded = record_drawing(&session, pipeline, options_without_guidance(), program, true);

  BatchCounts counts;
  counts[kSamples] = kPictureCount;
  Graph& graph = session.add_graph(counts, {});
  RecordOptions options;
  options.frozen = {""};
  options.drawing = recorded.shape;
  const LatentSlots& slots = recorded.latents;
  const Tensor latents = graph.input(kNoisyLatents, rows_per_sample(slots.pixels), slots.channels);
  const Tensor text =
      graph.input(kTextEmbeddings, rows_per_sample(pipeline.prompt_tokens()), pipeline.text.hidden_size);
  graph.set_part(kUnetPart);
  const Tensor output = pipeline.noise_predictor.model->record(graph, Use::kPredictNoise, options).output(kModelOutput);
  graph.keep(output);
  const Tensor timestep = graph.find(kTimeEmbedding);

  Threads threads(2, false);
  session.seal_alone(kernels_for(best_isa()), threads.count());
  StartWork work;
  std::vector<TensorSource> sources;
  load_pipeline(&work, pipeline, session.parameter_memory(), 0, false, &sources);
  work.run(threads);
  Drawer drawer(pipeline, recorded, program);
  drawer.seal_alone(session);

  const PromptTokenizer tokenizer(pipeline);
  const std::int64_t row_elements = pipeline.prompt_tokens() * pipeline.text.hidden_size;
  std::vector<float> rows;
  for (const auto& [place, words] : {std::pair<std::int64_t, const char*>{0, "a cat"}, {1, "a red heart"}}) {
    const std::vector<std::int32_t> ids = tokenizer.encode(words, "test").ids;
    drawer.keep_prompt(place, {ids.data(), ids.size()}, threads);
    rows.insert(rows.end(), drawer.text_embeddings(), drawer.text_embeddings() + row_elements);
    drawer.draw_noise(place, 5, static_cast<std::uint64_t>(place));
  }
  const std::int64_t count = kPictureCount * slots.pixels * slots.channels;
  const float* const noise = drawer.latents(program.calls.front().x, 0);
  const std::vector<float> first(noise, noise + count);
  const std::vector<DrawnPrompt> prompts = {{0, 0}, {0, 1}};
  drawer.call(0, {prompts.data(), prompts.size()}, threads);
  const std::vector<float> drawn(drawer.model_output(), drawer.model_output() + count);

  const Tape& tape = session.tape(session.graphs() - 1);
  std::copy(first.begin(), first.end(), tape.at(latents));
  std::copy(rows.begin(), rows.end(), tape.at(text));
  write_time_embedding(tape.at(timestep), pipeline.unet, program.calls.front().timestep);
  Replay replay;
  replay.batch.counts = counts;
  tape.replay(threads, replay);
  const std::vector<float> with_rows(tape.at(output), tape.at(output) + count);
  EXPECT_EQ(with_rows, drawn);
  EXPECT_TRUE(std::all_of(drawn.begin(), drawn.end(), [](float value) { return std::isfinite(value); }));
}

}  // namespace
}  // namespace bascule::test
