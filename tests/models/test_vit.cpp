// SPDX-License-Identifier: Apache-2.0
// ViT's config.json, and what is recorded for it. Its numbers: tests/data/goldens-families.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/graph/backward.h"
#include "src/models/families.h"
#include "src/models/vit_config.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test::test_vit {
namespace {

// The config.json of a small ViT, with these members after its own.
std::string text_with(const std::string& members) {
  return R"({"model_type": "vit", "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20,
             "image_size": 20, "patch_size": 6)" +
         (members.empty() ? "" : ", " + members) + "}";
}

ViTConfig read(const std::string& members) {
  const TemporaryFolder folder;
  return read_vit_config(folder.write("config.json", text_with(members)));
}

std::string refusal(const std::string& members) {
  return test::error_of([&] { read(members); });
}

TEST(ViTConfig, ReadsWhatTransformersWritesAndItsDefaults) {
  const ViTConfig least = read("");
  EXPECT_EQ(least.num_labels, 2);
  EXPECT_EQ(least.layer_norm_eps, 1e-12f);
  EXPECT_EQ(least.hidden_dropout_prob, 0.0f);
  EXPECT_TRUE(least.qkv_bias);
  EXPECT_EQ(least.classifier, ViTClassifier::kToken);
  const ViTConfig other = read(R"("id2label": {"0": "a", "1": "b", "2": "c"}, "qkv_bias": false, "problem_type": null,
                                  "classifier_type": "pooled", "hidden_act": "relu", "layer_norm_eps": 1e-6,
                                  "hidden_dropout_prob": 0.25, "attention_probs_dropout_prob": 0.5)");
  EXPECT_EQ(other.num_labels, 3);
  EXPECT_FALSE(other.qkv_bias);
  EXPECT_EQ(other.classifier, ViTClassifier::kPooled);
  EXPECT_EQ(other.hidden_act, Activation::kRelu);
  EXPECT_EQ(other.hidden_dropout_prob, 0.25f);
  EXPECT_EQ(other.attention_probs_dropout_prob, 0.5f);
  EXPECT_EQ(read(R"("num_labels": 7)").num_labels, 7);
  EXPECT_EQ(least.label_names, std::vector<std::string>());
  EXPECT_EQ(other.label_names, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(read(R"("num_labels": 2)").label_names, (std::vector<std::string>{"LABEL_0", "LABEL_1"}));
}

TEST(ViTConfig, RefusesWhatItCannotBeWithTheKey) {
  for (const auto& [members, key] :
       {std::pair<const char*, const char*>{R"("num_attention_heads": 5)", "num_attention_heads"},
        {R"("image_size": 5)", "image_size"},
        {R"("image_size": [20, 20])", "image_size"},
        {R"("classifier_type": "mean")", "classifier_type"},
        {R"("num_labels": 70000)", "at most 65536 classes"},
        {R"("problem_type": "regression")", "problem_type"},
        {R"("id2label": {})", "id2label"},
        {R"("hidden_dropout_prob": 1.0)", "hidden_dropout_prob"}}) {
    EXPECT_NE(refusal(members).find(key), std::string::npos) << members << ": " << refusal(members);
  }
}

// The last layer computes keys and values of all rows and all else of the class rows alone; the pooled classifier reads
// every row.
TEST(ViT, TheLastLayerOfTheTokenClassifierHasOneRowASample) {
  for (const bool is_pooled : {false, true}) {
    const TemporaryFolder folder;
    const std::string path =
        folder.write("config.json", text_with(is_pooled ? R"("classifier_type": "pooled")" : R"("num_labels": 3)"));
    const std::unique_ptr<Model> model = open_model({path, {}}, "image_classification");
    BatchCounts bounds;
    bounds[kSamples] = 4;
    ParameterSet parameters;
    Graph graph(parameters, bounds, model->fields({}));
    model->record(graph, Use::kTrain, {});
    derive_backward(graph);
    const std::int64_t rows = is_pooled ? 9 : 1;  // of 20 pixels two are cut off
    EXPECT_EQ(graph[graph.find("vit.encoder.layer.1/vit.encoder.layer.1.output.dense")].rows.per_row, rows);
    EXPECT_EQ(graph[graph.find("vit.encoder.layer.0/vit.encoder.layer.0.output.dense")].rows.per_row,
              is_pooled ? 9 : 10);
  }
}

TEST(ViT, AnUnknownHeadIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THROW(open_model({folder.write("config.json", text_with("")), {}}, "contrastive"), Error);
}

}  // namespace
}  // namespace bascule::test::test_vit
