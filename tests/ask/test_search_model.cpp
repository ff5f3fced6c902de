// SPDX-License-Identifier: Apache-2.0
#include "src/ask/search_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "src/checkpoint/hf_folder.h"
#include "src/checkpoint/safetensors.h"
#include "src/models/bridgetower.h"
#include "src/models/families.h"
#include "tests/ask/finished_run.h"
#include "tests/support/files.h"
#include "tests/support/reference_dir.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using test::FinishedRun;
using test::kThreads;
using test::SealedSession;

double largest_difference(const std::vector<float>& a, const float* b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return largest;
}

TEST(SearchModel, GivesTheEmbeddingsThatTheWholeModelGave) {
  const FinishedRun run;
  SearchModel model(run.path(), run.model(), {true, run.paths().size()}, best_isa(), kThreads);
  const PictureEmbeddings pictures = model.embed_pictures(run.paths());
  ASSERT_EQ(pictures.paths, run.paths());
  const std::size_t width = static_cast<std::size_t>(run.config().contrastive_hidden_size);
  ASSERT_EQ(pictures.embeds.size(), run.paths().size() * width);
  for (std::size_t row = 0; row < run.captions().size(); ++row) {
    EXPECT_LE(largest_difference(run.image_embed(row), pictures.embeds.data() + row * width), 1e-6) << row;
    EXPECT_LE(largest_difference(run.text_embed(row), model.embed_text(run.captions()[row]).data()), 1e-6) << row;
  }
}

TEST(SearchModel, PreparesPicturesAndTextsAsTheRunDid) {
  const FinishedRun run;
  test::TemporaryFolder folder;
  run.copy_to(folder.path(), {});
  folder.write("bascule.json", R"({"preprocessing": "processor", "max_seq_length": 6})");
  SearchModel plain(run.path(), run.model(), {true, 1}, best_isa(), kThreads);
  SearchModel other(folder.path(), run.model(), {true, 1}, best_isa(), kThreads);
  EXPECT_NE(plain.embed_pictures({run.paths()[0]}).embeds, other.embed_pictures({run.paths()[0]}).embeds);
  EXPECT_NE(plain.embed_text("one two three four five six"), plain.embed_text("one two three four nine ten"));
  EXPECT_EQ(other.embed_text("one two three four five six"), other.embed_text("one two three four nine ten"));
}

TEST(SearchModel, PreparesPicturesAsTheProcessorDoesWhereNoRunLeftTheFolder) {
  const FinishedRun run;
  test::TemporaryFolder saved, processor;
  run.copy_to(saved.path(), {"bascule.json"});
  run.copy_to(processor.path(), {});
  processor.write("bascule.json", R"({"preprocessing": "processor"})");
  SearchModel training(run.path(), run.model(), {false, 1}, best_isa(), kThreads);
  SearchModel as_saved(saved.path(), run.model(), {false, 1}, best_isa(), kThreads);
  SearchModel as_processor(processor.path(), run.model(), {false, 1}, best_isa(), kThreads);
  const std::vector<float> embeds = as_saved.embed_pictures({run.paths()[0]}).embeds;
  EXPECT_EQ(embeds, as_processor.embed_pictures({run.paths()[0]}).embeds);
  EXPECT_NE(embeds, training.embed_pictures({run.paths()[0]}).embeds);
}

TEST(SearchModel, ResizesPicturesAsTheRunDid) {
  const FinishedRun run;
  SearchModel plain(run.path(), run.model(), {false, 1}, best_isa(), kThreads);
  for (const char* const marker : {R"({"interpolation": "bilinear"})", R"({"eval_crop_ratio": 0.5})"}) {
    test::TemporaryFolder folder;
    run.copy_to(folder.path(), {});
    folder.write("bascule.json", marker);
    SearchModel other(folder.path(), run.model(), {false, 1}, best_isa(), kThreads);
    EXPECT_NE(plain.embed_pictures({run.paths()[0]}).embeds, other.embed_pictures({run.paths()[0]}).embeds) << marker;
  }
}

TEST(SearchModel, RefusesAMarkerThatCannotBe) {
  for (const char* marker :
       {R"({"preprocessing": "none"})", R"({"preprocessing": 3})", R"({"interpolation": "nearest"})",
        R"({"eval_crop_ratio": 0})", R"({"max_seq_length": 1})", "{"}) {
    test::TemporaryFolder folder;
    folder.write("bascule.json", marker);
    EXPECT_TRUE(test::fails([&] { read_run_inputs(folder.path()); })) << marker;
  }
}

std::vector<float> floats_of(const TensorSource& source, const std::string& name) {
  const StoredTensor* tensor = source.find(name);
  std::vector<float> values(static_cast<std::size_t>(element_count(tensor->shape)));
  source.read_float32(values.data(), *tensor, 0, static_cast<std::int64_t>(values.size()));
  return values;
}

// The contrastive reference case: the reference's weights and inputs, and what it answered in float64.
struct ReferenceCase {
  std::string folder = test::reference_dir() + "/goldens/itc_add";
  BridgeTowerConfig config = read_bridgetower_config(folder + "/config.json");
  TensorSource expected = open_safetensors(folder + "/expected.safetensors");
  std::int64_t height = 0, width = 0;

  PackedBatch batch() {
    const TensorSource inputs = open_safetensors(folder + "/batch.safetensors");
    const StoredTensor* ids = inputs.find("batch0.input_ids");
    const StoredTensor* pixels = inputs.find("batch0.pixel_values");
    height = pixels->shape[2];
    width = pixels->shape[3];
    PaddedBatch padded;
    padded.samples = ids->shape[0];
    padded.texts[0].length = ids->shape[1];
    padded.texts[0].input_ids.resize(static_cast<std::size_t>(padded.samples * padded.texts[0].length));
    padded.texts[0].attention_mask.resize(padded.texts[0].input_ids.size());
    inputs.read_bytes(padded.texts[0].input_ids.data(), *ids);
    inputs.read_bytes(padded.texts[0].attention_mask.data(), *inputs.find("batch0.attention_mask"));
    padded.pixels = floats_of(inputs, "batch0.pixel_values");
    return PackedBatch(padded, open_model({folder + "/config.json", {}}, "contrastive")->inputs(), false, folder);
  }
};

TEST(Embed, GivesTheEmbeddingsOfTheReference) {
  ReferenceCase reference;
  const PackedBatch packed = reference.batch();
  SealedSession towers;
  const Fields fields =
      bridgetower_fields(reference.config, ModelHead::kContrastive, reference.height, reference.width, false);
  const BatchCounts counts = packed.counts(fields);
  const Tensor text = record_text_embeds(towers.session.add_graph(counts, fields), reference.config);
  const Tensor image = record_image_embeds(towers.session.add_graph(counts, fields), reference.config, reference.height,
                                           reference.width);
  towers.seal();
  const TensorSource source = open_hf_weights(reference.folder);
  StartWork work;
  const LoadReport report = load_parameters(&work, source, towers.session.parameter_memory(),
                                            *open_model({reference.folder + "/config.json", {}}, "contrastive"), 0);
  work.run(towers.threads);
  EXPECT_TRUE(report.missing.empty());
  Replay replay;
  replay.batch = packed.batch(fields);
  // One after the other: tapes take turns in the workspace.
  towers.session.tape(0).replay(towers.threads, replay);
  EXPECT_LE(largest_difference(floats_of(reference.expected, "text_embeds"), towers.session.tape(0).at(text)), 2e-6);
  towers.session.tape(1).replay(towers.threads, replay);
  EXPECT_LE(largest_difference(floats_of(reference.expected, "image_embeds"), towers.session.tape(1).at(image)), 2e-6);
}

TEST(Embed, ReadsTheLastTransformWhereEveryLayerHasItsOwn) {
  ReferenceCase reference;
  reference.config.share_cross_modal_transformer_layers = false;
  const PackedBatch packed = reference.batch();
  SealedSession whole, towers;
  const Fields fields =
      bridgetower_fields(reference.config, ModelHead::kContrastive, reference.height, reference.width, false);
  const BatchCounts counts = packed.counts(fields);
  BridgeTowerOptions options;
  options.head = ModelHead::kContrastive;
  options.height = reference.height;
  options.width = reference.width;
  const BridgeTowerOutputs outputs =
      record_bridgetower(whole.session.add_graph(counts, fields), reference.config, options);
  const Tensor image = record_image_embeds(towers.session.add_graph(counts, fields), reference.config, reference.height,
                                           reference.width);
  Replay replay;
  replay.batch = packed.batch(fields);
  for (SealedSession* one : {&whole, &towers}) {
    one->seal();
    StartWork work;
    initialise_parameters(&work, one->session.parameter_memory(), 7);
    work.run(one->threads);
    one->session.tape(0).replay(one->threads, replay);
  }
  const float* truth = whole.session.tape(0).at(outputs.image_embeds);
  const std::vector<float> expected(truth, truth + counts.samples() * reference.config.contrastive_hidden_size);
  EXPECT_LE(largest_difference(expected, towers.session.tape(0).at(image)), 1e-6);
}

}  // namespace
}  // namespace bascule
