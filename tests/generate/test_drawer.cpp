// SPDX-License-Identifier: Apache-2.0
// A pipeline's three models one by one. Whole pictures, their batches and their bits: tests/draw_run; values: the
// reference cases.
#include "src/generate/drawer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "kernels/table.h"
#include "src/generate/pipeline.h"
#include "src/generate/samplers.h"
#include "tests/support/reference_dir.h"

namespace bascule::test {
namespace {

std::string folder_of(const std::string& name) { return reference_dir() + "/goldens-families/" + name; }

DrawingOptions options_of(std::int64_t batch, float guidance, std::int64_t prompts = 4) {
  DrawingOptions options;
  options.batch = batch;
  options.height = 16;
  options.width = 24;
  options.prompts = prompts;
  options.guidance = guidance;
  return options;
}

// A drawer with the weights of sd_v1, whose outputs are kept.
class SmallDrawer {
 public:
  explicit SmallDrawer(const DrawingOptions& options, Isa isa = best_isa(), int threads = 1,
                       const std::string& scheduler = "default")
      : pipeline_(open_pipeline(folder_of("sd_v1"))),
        program_(sampling_program(read_sampler_options(pipeline_.scheduler_file(), scheduler, ""), 4)),
        threads_(threads, false),
        recorded(record_drawing(&session_, pipeline_, options, program_, true)),
        drawer(pipeline_, recorded, program_),
        tokenizer_(pipeline_) {
    session_.seal_alone(kernels_for(isa), threads);
    StartWork work;
    std::vector<TensorSource> sources;
    load_pipeline(&work, pipeline_, session_.parameter_memory(), 0, false, &sources);
    work.run(threads_);
    drawer.seal_alone(session_);
  }

  // The text's rows.
  std::vector<float> keep(std::int64_t place, const std::string& text) {
    const std::vector<std::int32_t> ids = tokenizer_.encode(text, "test").ids;
    drawer.keep_prompt(place, {ids.data(), ids.size()}, threads_);
    const float* const rows = drawer.text_embeddings();
    return {rows, rows + pipeline_.prompt_tokens() * pipeline_.text.hidden_size};
  }
  void call(std::size_t number, const std::vector<DrawnPrompt>& prompts) {
    drawer.call(number, {prompts.data(), prompts.size()}, threads_);
  }
  void draw(const std::vector<DrawnPrompt>& prompts) {
    for (std::size_t number = 0; number < program_.calls.size(); ++number) call(number, prompts);
  }
  std::int64_t latent_count() const { return recorded.latents.pixels * recorded.latents.channels; }
  std::vector<float> output(std::int64_t sample) const {
    const float* const values = drawer.model_output() + sample * latent_count();
    return {values, values + latent_count()};
  }
  std::vector<float> latents(std::int64_t picture) const {
    const float* const values = drawer.latents(program_.calls.back().next, picture);
    return {values, values + latent_count()};
  }
  std::vector<float> decoded(const std::vector<float>& latents) {
    drawer.decode_latents(latents.data(), threads_);
    return {drawer.picture(), drawer.picture() + 3 * 16 * 24};
  }
  const SamplingProgram& program() const { return program_; }

 private:
  const Pipeline pipeline_;
  const SamplingProgram program_;
  Session session_;
  Threads threads_;

 public:
  const RecordedDrawing recorded;
  Drawer drawer;

 private:
  const PromptTokenizer tokenizer_;
};

std::vector<float> some_latents(std::int64_t count, float phase) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(std::sin(phase + 0.37f * static_cast<float>(i)));
  return values;
}

// Text encoder, UNet and decoder, each with the same bits on every instruction set and number of threads.
TEST(Drawers, EachModelHasTheSameBitsEverywhere) {
  for (const Precision precision : {Precision::kFloat32, Precision::kBf16}) {
    std::vector<std::vector<float>> first;
    for (const Isa isa : kAllIsas) {
      if (!isa_supported(isa)) continue;
      for (const int threads : {1, 2, 4}) {
        DrawingOptions options = options_of(2, 7.5f);
        options.precision = precision;
        SmallDrawer small(options, isa, threads);
        std::vector<std::vector<float>> values = {small.keep(0, "a cat"), small.keep(1, ""), small.keep(3, "a dog")};
        small.drawer.draw_noise(0, 7, 0);
        small.drawer.draw_noise(1, 7, 1);
        small.call(0, {{1, 0}, {1, 3}});
        for (const int sample : {0, 1, 2, 3}) values.push_back(small.output(sample));
        values.push_back(small.decoded(some_latents(small.latent_count(), 0.5f)));
        if (first.empty()) first = values;
        EXPECT_EQ(values, first) << isa_name(isa) << ", " << threads << " threads";
      }
    }
  }
}

TEST(Drawers, ATextHasTheSameRowsInEveryPlaceAndAfterEveryOther) {
  SmallDrawer small(options_of(1, 7.5f, 3));
  const std::vector<float> cat = small.keep(0, "a cat"), dog = small.keep(1, "a dog");
  EXPECT_NE(cat, dog);
  EXPECT_EQ(small.keep(2, "a cat"), cat);
  EXPECT_EQ(small.keep(0, "a dog"), dog);
  for (const float value : cat) ASSERT_TRUE(std::isfinite(value));
}

// The keys and values of a place are those of its text alone.
TEST(Drawers, APictureReadsThePlacesThatItNames) {
  SmallDrawer small(options_of(2, 7.5f, 4));
  small.keep(0, "a cat");
  small.keep(1, "a dog");
  small.keep(2, "");
  const auto latents_of = [&](const std::vector<DrawnPrompt>& prompts) {
    for (std::int64_t p = 0; p < static_cast<std::int64_t>(prompts.size()); ++p) small.drawer.draw_noise(p, 3, 9);
    small.draw(prompts);
    return std::vector<std::vector<float>>{small.latents(0), small.latents(1)};
  };
  const std::vector<std::vector<float>> apart = latents_of({{2, 0}, {2, 1}}), swapped = latents_of({{2, 1}, {2, 0}});
  EXPECT_NE(apart[0], apart[1]);
  EXPECT_EQ(apart[0], swapped[1]);
  EXPECT_EQ(apart[1], swapped[0]);
  small.keep(3, "a cat");
  EXPECT_EQ(latents_of({{2, 3}, {2, 1}}), apart);
  EXPECT_NE(latents_of({{0, 2}, {2, 1}})[0], apart[0]) << "prompt and negative prompt are not the same";
}

// Guidance: the output with the prompt, further away from that without it.
TEST(Drawers, GuidanceGoesFromTheNegativePromptToThePrompt) {
  const auto step = [&](float guidance, const DrawnPrompt& prompt) {
    SmallDrawer small(options_of(1, guidance));
    small.keep(0, "a cat");
    small.keep(1, "a dog");
    small.drawer.draw_noise(0, 5, 0);
    small.call(0, {prompt});
    const float* const values = small.drawer.latents(small.program().calls.front().next, 0);
    return std::vector<double>(values, values + small.latent_count());
  };
  const std::vector<double> cat = step(1.0f, {1, 0}), dog = step(1.0f, {0, 1}), guided = step(3.0f, {1, 0});
  double largest = 0.0, moved = 0.0;
  for (std::size_t i = 0; i < cat.size(); ++i) {
    largest = std::max(largest, std::fabs(guided[i] - (dog[i] + 3.0 * (cat[i] - dog[i]))));
    moved = std::max(moved, std::fabs(guided[i] - cat[i]));
  }
  EXPECT_LT(largest, 1e-5);
  EXPECT_GT(moved, 1e-3);
}

// Latents of 10 x 14, then 5 x 7, then 3 x 4: on the way up a picture is enlarged to the size of the skip, which is not
// always twice its own. Against Diffusers: tools/fuzz_against_transformers.py.
TEST(Drawers, PicturesOfOddSizesAreEnlargedToThatOfTheirSkips) {
  const Pipeline pipeline = open_pipeline(folder_of("sd_v1"));
  const SamplingProgram program = sampling_program(read_sampler_options(pipeline.scheduler_file()), 4);
  DrawingOptions options = options_of(1, 7.5f);
  options.height = 20;
  options.width = 28;
  Session session;
  const RecordedDrawing recorded = record_drawing(&session, pipeline, options, program);
  const Graph& graph = session.graph(recorded.noise);
  EXPECT_EQ(graph.max_rows(recorded.model_output), 2 * 10 * 14);
  EXPECT_EQ(graph.max_rows(graph.find("up_blocks.1/up_blocks.1.upsamplers.0.conv")), 2 * 10 * 14);
  EXPECT_EQ(graph.max_rows(graph.find("up_blocks.0/up_blocks.0.upsamplers.0.conv")), 2 * 5 * 7);
}

// The noise of a file is (channels, height, width), that of a state (pixels, channels), times the sampler's scale.
TEST(Drawers, NoiseIsScaledAndTransposed) {
  SmallDrawer small(options_of(2, 1.0f), best_isa(), 1, "euler");
  const float scale = static_cast<float>(small.program().initial_scale);
  ASSERT_GT(scale, 2.0f) << "Euler begins with noise times its largest sigma";
  std::vector<float> noise(static_cast<std::size_t>(small.latent_count()));
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<float>(i);
  small.drawer.set_noise(1, noise.data());
  small.drawer.draw_noise(0, 5, 6);
  const int slot = small.program().calls.front().x;
  const float* const of_file = small.drawer.latents(slot, 1);
  const std::int64_t pixels = small.recorded.latents.pixels;
  for (std::int64_t p = 0; p < pixels; ++p) {
    for (std::int64_t c = 0; c < 4; ++c)
      ASSERT_EQ(of_file[p * 4 + c], scale * static_cast<float>(c * pixels + p)) << p << " " << c;
  }
  fill_normal_latents(noise.data(), 5, 6, 0, small.latent_count());
  for (std::int64_t i = 0; i < small.latent_count(); ++i)
    ASSERT_EQ(small.drawer.latents(slot, 0)[i], scale * noise[static_cast<std::size_t>(i)]) << i;
}

TEST(Drawers, APictureIsThatOfItsLatentsAlone) {
  SmallDrawer small(options_of(1, 1.0f));
  const std::vector<float> one = some_latents(small.latent_count(), 0.1f),
                           two = some_latents(small.latent_count(), 2.f);
  const std::vector<float> first = small.decoded(one), second = small.decoded(two);
  EXPECT_NE(first, second);
  EXPECT_EQ(small.decoded(one), first);
}

}  // namespace
}  // namespace bascule::test
