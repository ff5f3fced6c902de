// SPDX-License-Identifier: Apache-2.0
// What is recorded for DeiT's two heads. Their numbers: tests/data/more_goldens.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/models/families.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test::test_deit {
namespace {

constexpr char kPlain[] = "image_classification", kWithTeacher[] = "image_classification_with_teacher";

std::unique_ptr<Model> open(const std::string& head) {
  const TemporaryFolder folder;
  return open_model({folder.write("config.json", R"({"model_type": "deit", "hidden_size": 24, "num_hidden_layers": 2,
      "num_attention_heads": 3, "intermediate_size": 20, "image_size": 20, "patch_size": 6, "num_labels": 3})"),
                     {}},
                    head);
}

struct Recorded {
  ParameterSet parameters;
  std::set<std::string> names, trained;  // of tensors of the checkpoint
  std::int64_t last_rows = 0;            // of a sample, behind the attention of the last layer
};

std::unique_ptr<Recorded> record(const Model& model, const std::vector<std::string>& frozen = {}) {
  auto recorded = std::make_unique<Recorded>();
  BatchCounts bounds;
  bounds[kSamples] = 4;
  Graph graph(recorded->parameters, bounds, model.fields({}));
  RecordOptions options;
  options.frozen = frozen;
  model.record(graph, Use::kTrain, options);
  for (int p = 0; p < recorded->parameters.size(); ++p) {
    for (const ParameterPiece& piece : recorded->parameters[p].pieces) {
      recorded->names.insert(piece.name);
      if (recorded->parameters[p].trained) recorded->trained.insert(piece.name);
    }
  }
  const Tensor last = graph.find("deit.encoder.layer.1/deit.encoder.layer.1.output.dense");
  recorded->last_rows = graph[last].rows.per_row;
  return recorded;
}

TEST(DeiT, HasBothTokensAndTheClassifiersOfItsClass) {
  for (const auto& [head, classifiers] :
       {std::pair(kPlain, std::vector<std::string>{"classifier"}),
        std::pair(kWithTeacher, std::vector<std::string>{"cls_classifier", "distillation_classifier"})}) {
    const std::set<std::string> names = record(*open(head))->names;
    for (const char* token : {"deit.embeddings.cls_token", "deit.embeddings.distillation_token"})
      EXPECT_EQ(names.count(token), 1U) << token;
    std::set<std::string> outside;
    for (const std::string& name : names) {
      if (name.rfind("deit.", 0) != 0) outside.insert(name);
    }
    std::set<std::string> expected;
    for (const std::string& name : classifiers) expected.insert({name + ".bias", name + ".weight"});
    EXPECT_EQ(outside, expected);
    EXPECT_EQ(record(*open(head), {"deit"})->trained, expected);
  }
}

// A folder of either class starts a run of the other.
TEST(DeiT, ClassifiersThatAFolderLacksAreInitialisedAndNothingElseIs) {
  EXPECT_TRUE(open(kPlain)->may_be_fresh("classifier.weight"));
  EXPECT_FALSE(open(kPlain)->may_be_fresh("cls_classifier.weight"));
  EXPECT_TRUE(open(kWithTeacher)->may_be_fresh("distillation_classifier.bias"));
  EXPECT_FALSE(open(kWithTeacher)->may_be_fresh("deit.embeddings.distillation_token"));
}

// Of 20 pixels two are cut off.
TEST(DeiT, TheLastLayerHasTheRowThatTheClassifierReads) {
  EXPECT_EQ(record(*open(kPlain))->last_rows, 1);
  EXPECT_EQ(record(*open(kWithTeacher))->last_rows, 2 + 3 * 3);
}

TEST(DeiT, AnUnknownHeadIsRefusedWithBoth) {
  try {
    open("contrastive");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.what_to_do(), "DeiT has image_classification and image_classification_with_teacher");
  }
}

}  // namespace
}  // namespace bascule::test::test_deit
