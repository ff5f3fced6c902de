// SPDX-License-Identifier: Apache-2.0
// Vectors of texts: those of a text are the same in every batch, and what a row's texts have in common and what not.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "src/graph/backward.h"
#include "src/models/families.h"
#include "src/session/packed_batch.h"
#include "src/session/session.h"
#include "tests/support/error_bound.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test::test_text_embeddings {
namespace {

constexpr std::int64_t kWidth = 24;
constexpr std::uint64_t kSeed = 11;

using Texts = std::vector<std::vector<std::int64_t>>;

const Texts& some_texts() {
  static const Texts texts = {{2, 5, 9, 7, 3}, {2, 3},     {2, 8, 8, 8, 11, 6, 4, 3},
                              {2, 5, 9, 7, 3}, {2, 14, 3}, {2, 9, 9, 3}};
  return texts;
}

struct Body {
  std::string name;  // as model.freeze has it
  std::string config;
  std::string pooler;  // a tensor of one, as files may have it
};

std::vector<Body> bodies() {
  const std::string sizes =
      R"("hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20,
    "vocab_size": 30, "max_position_embeddings": 40})";
  return {
      {"bert", R"({"model_type": "bert", )" + sizes, "bert.pooler.dense.weight"},
      {"roberta", R"({"model_type": "roberta", )" + sizes, "pooler.dense.weight"},
      {"distilbert",
       R"({"model_type": "distilbert", "dim": 24, "n_layers": 2, "n_heads": 3, "hidden_dim": 20, "vocab_size": 30})",
       ""}};
}

std::unique_ptr<Model> open(const std::string& config, const ModelSource& options) {
  const TemporaryFolder folder;
  ModelSource source = options;
  source.config_path = folder.write("config.json", config);
  return open_model(source, "sentence_embedding");
}

PaddedBatch padded(const Texts& texts, std::int64_t in_a_row) {
  PaddedBatch batch;
  batch.samples = static_cast<std::int64_t>(texts.size()) / in_a_row;
  for (const std::vector<std::int64_t>& text : texts)
    batch.texts[0].length = std::max<std::int64_t>(batch.texts[0].length, static_cast<std::int64_t>(text.size()));
  for (const std::vector<std::int64_t>& text : texts) {
    for (std::size_t t = 0; t < static_cast<std::size_t>(batch.texts[0].length); ++t) {
      batch.texts[0].input_ids.push_back(t < text.size() ? text[t] : 0);
      batch.texts[0].attention_mask.push_back(t < text.size() ? 1 : 0);
    }
  }
  return batch;
}

std::vector<float> embed(const Model& model, Use use, const RecordOptions& options, const Texts& texts, int threads) {
  ModelInputs inputs = model.inputs();
  if (options.texts_in_a_row > 0) inputs.texts_in_a_row = options.texts_in_a_row;
  const Fields fields = model.fields(options);
  const PackedBatch packed(padded(texts, inputs.texts_in_a_row), inputs, false, "here");
  Session session;
  Graph& graph = session.add_graph(packed.counts(fields), fields);
  const Recording recording = model.record(graph, use, options);
  if (use == Use::kTrain) {
    derive_backward(graph);
    session.train({});
  }
  session.seal_alone(kernels_for(best_isa()), threads);
  Threads pool(threads, false);
  StartWork work;
  initialise_parameters(&work, session.parameter_memory(), kSeed);
  work.run(pool);
  Replay replay;
  replay.batch = packed.batch(fields);
  session.tape(0).replay(pool, replay);
  const float* const values = session.tape(0).at(recording.output(kSentenceEmbedding));
  return {values, values + texts.size() * kWidth};
}

std::vector<float> part(const std::vector<float>& all, std::size_t text) {
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(text * kWidth);
  return {first, first + kWidth};
}

TEST(TextEmbeddings, OfATextAreTheSameAloneInAnyBatchAndInARowOfTexts) {
  for (const Body& body : bodies()) {
    for (const Pooling pooling : {Pooling::kMean, Pooling::kCls, Pooling::kMax}) {
      for (const bool normalize : {false, true}) {
        ModelSource source;
        source.pooling = pooling;
        source.normalize = normalize;
        source.texts_in_a_row = 3;
        const std::unique_ptr<Model> model = open(body.config, source);
        RecordOptions alone;
        alone.texts_in_a_row = 1;
        const Texts& texts = some_texts();
        const std::vector<float> batch = embed(*model, Use::kEmbedText, alone, texts, 2);
        EXPECT_EQ(first_different_bit(embed(*model, Use::kEvaluate, {}, texts, 1), batch), -1);
        EXPECT_EQ(first_different_bit(embed(*model, Use::kTrain, {}, texts, 2), batch), -1);
        EXPECT_EQ(first_different_bit(embed(*model, Use::kReference, {}, texts, 1), batch), -1);
        for (std::size_t i = 0; i < texts.size(); ++i)
          EXPECT_EQ(first_different_bit(embed(*model, Use::kEmbedText, alone, {texts[i]}, 1), part(batch, i)), -1) << i;
        double length = 0.0;
        for (const float value : part(batch, 2)) length += static_cast<double>(value) * static_cast<double>(value);
        EXPECT_EQ(std::abs(length - 1.0) < 1e-6, normalize);
        EXPECT_NE(part(batch, 0), part(batch, 2));
      }
    }
  }
}

// Dropout of a text does not depend on what its row has beside it, and that of a row's two equal texts differs.
TEST(TextEmbeddings, OfEqualTextsOfARowDropOtherElements) {
  for (const Body& body : bodies()) {
    for (const Pooling pooling : {Pooling::kMean, Pooling::kCls}) {
      ModelSource source;
      source.pooling = pooling;
      source.texts_in_a_row = 2;
      const std::unique_ptr<Model> model = open(body.config, source);
      RecordOptions options;
      options.dropout = true;
      const Texts texts = {{2, 5, 9, 3}, {2, 5, 9, 3}, {2, 7, 3}, {2, 5, 9, 3}};
      const std::vector<float> batch = embed(*model, Use::kTrain, options, texts, 2);
      EXPECT_NE(part(batch, 0), part(batch, 1));
      EXPECT_NE(part(batch, 1), part(batch, 3));
      EXPECT_EQ(batch, embed(*model, Use::kTrain, options, texts, 1));
    }
  }
}

TEST(TextEmbeddings, HaveTheTensorsOfTheBodyAloneAndThePoolerOfTheirFile) {
  for (const Body& body : bodies()) {
    for (const bool has_pooler : {false, true}) {
      ModelSource source;
      source.has_weights = [&](const std::string& tensor) { return has_pooler && tensor == body.pooler; };
      source.texts_in_a_row = 2;
      const std::unique_ptr<Model> model = open(body.config, source);
      ParameterSet parameters;
      BatchCounts bounds;
      bounds[kSamples] = 2;
      bounds[kFirstModelStream] = 10;
      Graph graph(parameters, bounds, model->fields({}));
      RecordOptions frozen;
      frozen.frozen = {body.name};
      model->record(graph, Use::kTrain, frozen);
      for (int p = 0; p < parameters.size(); ++p) {
        EXPECT_FALSE(parameters[p].trained);
        for (const ParameterPiece& piece : parameters[p].pieces) {
          EXPECT_FALSE(model->may_be_fresh(piece.name)) << piece.name;
          const bool is_of_body = piece.name.rfind("embeddings.", 0) == 0 || piece.name.rfind("encoder.", 0) == 0 ||
                                  piece.name.rfind("transformer.", 0) == 0;
          EXPECT_TRUE(is_of_body) << piece.name;
        }
      }
      std::vector<std::string> unused;
      for (const ParameterPiece& piece : model->unused_tensors()) unused.push_back(piece.name);
      EXPECT_EQ(unused, has_pooler && !body.pooler.empty()
                            ? (std::vector<std::string>{"pooler.dense.weight", "pooler.dense.bias"})
                            : std::vector<std::string>{});
      EXPECT_EQ(model->embedding_width(), kWidth);
    }
  }
}

TEST(TextEmbeddings, ReadScoresWhereTheirLossCompares) {
  for (const auto& [loss, has_scores] : {std::pair{EmbeddingLoss::kRanking, false},
                                         {EmbeddingLoss::kSymmetricRanking, false},
                                         {EmbeddingLoss::kCosent, true},
                                         {EmbeddingLoss::kCosineSimilarity, true}}) {
    ModelSource source;
    source.loss = loss;
    source.texts_in_a_row = 2;
    const std::unique_ptr<Model> model = open(bodies()[0].config, source);
    EXPECT_EQ(field_from(model->fields({}), FieldSource::kLabelValues) >= 0, has_scores);
    EXPECT_EQ(model->inputs().has_values, has_scores);
    EXPECT_EQ(model->inputs().texts_in_a_row, 2);
    RecordOptions alone;
    alone.texts_in_a_row = 1;
    EXPECT_LT(field_from(model->fields(alone), FieldSource::kLabelValues), 0);
  }
}

}  // namespace
}  // namespace bascule::test::test_text_embeddings
