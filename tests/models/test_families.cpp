// SPDX-License-Identifier: Apache-2.0
#include "src/models/families.h"

#include <gtest/gtest.h>

#include <utility>

#include "src/base/error.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

std::string config(const TemporaryFolder& folder, const std::string& text) { return folder.write("config.json", text); }

TEST(Families, AreFoundByTheModelType) {
  const TemporaryFolder folder;
  EXPECT_STREQ(family_of(config(folder, R"({"model_type": "bridgetower"})")).model_type, "bridgetower");
  EXPECT_STREQ(family_of(config(folder, R"({"model_type": "vit"})")).model_type, "vit");
}

TEST(Families, AnUnknownModelTypeAndAMissingOneAreRefusedWithTheKnownOnes) {
  const TemporaryFolder folder;
  for (const auto& [text, problem] :
       {std::pair(R"({"model_type": "clip"})", "model_type = \"clip\""), std::pair("{}", "has no model_type"),
        std::pair("[]", "is not a JSON object with a model_type")}) {
    try {
      family_of(config(folder, text));
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      EXPECT_EQ(error.problem(), problem);
      EXPECT_NE(error.what_to_do().find("\"bridgetower\""), std::string::npos);
    }
  }
}

TEST(Families, AnUnknownHeadIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THROW(open_model({config(folder, R"({"model_type": "bridgetower"})"), {}}, "none"), Error);
}

// The model is of the head that the settings name: the class of each is written into config.json.
TEST(Families, EveryHeadOpensAModelOfItsClass) {
  const TemporaryFolder folder;
  const std::string path =
      config(folder, R"({"model_type": "bridgetower", "contrastive_hidden_size": 16, "logit_scale_init_value": 2.6})");
  for (const FamilyHead& head : usual_family().heads) {
    const std::unique_ptr<Model> model = open_model({path, {}}, head.words.name);
    EXPECT_EQ(model->architecture(), head.architecture) << head.words.name;
    for (const Use use : {Use::kEmbedText, Use::kEmbedPicture})
      EXPECT_EQ(serves(*model, use), head.command == "search") << head.words.name;
    EXPECT_EQ(model->embedding_width() > 0, head.command == "search") << head.words.name;
    EXPECT_TRUE(head.words.has_classes || head.words.uses_negatives) << head.words.name;
  }
}

class Nothing final : public Model {
 public:
  const char* architecture() const override { return "Nothing"; }
  const char* body_prefix() const override { return "nothing."; }
  bool may_be_fresh(const std::string&) const override { return true; }
  std::vector<ParameterPiece> unused_tensors() const override { return {}; }
  ModelCardWords card() const override { return {}; }
  ModelInputs inputs() const override { return {}; }
  Fields fields(const RecordOptions&) const override { return {}; }
  Recording record(Graph&, Use, const RecordOptions&) const override { return {}; }
};

TEST(Families, AFamilyFromOutsideIsFoundToo) {
  static const Family family = {
      "nothing", "", {{{"some_head", false, false, true, {}}, "matching", "Nothing"}},
      {},        {}, [](const ModelSource&, const std::string&) { return std::unique_ptr<Model>(new Nothing); }};
  add_family(family);
  const TemporaryFolder folder;
  const std::string path = config(folder, R"({"model_type": "nothing"})");
  EXPECT_EQ(&family_of(path), &family);
  EXPECT_STREQ(open_model({path, {}}, "some_head")->architecture(), "Nothing");
}

}  // namespace
}  // namespace bascule::test
