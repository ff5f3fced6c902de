// SPDX-License-Identifier: Apache-2.0
#include "src/record/opened_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

TEST(ModelWords, NameTheFiguresThatAreBetterWhenSmaller) {
  for (const HeadWords& head : words_of_usual_family().heads) {
    const bool is_masked_lm = head.name == "masked_lm";
    EXPECT_EQ(head.smaller_is_better,
              is_masked_lm ? std::vector<std::string>{"perplexity"} : std::vector<std::string>{});
  }
}

// A run of texts knows only once it has read its labels whether they are values.
TEST(ModelWords, NameThoseOfClassesAndOfValues) {
  const TemporaryFolder folder;
  folder.write("config.json", R"({"model_type": "bert"})");
  const std::vector<HeadWords> heads = model_words(folder.path()).heads;
  const auto found = std::find_if(heads.begin(), heads.end(),
                                  [](const HeadWords& head) { return head.name == "sequence_classification"; });
  ASSERT_NE(found, heads.end());
  EXPECT_EQ(found->smaller_is_better, std::vector<std::string>{"mse"});
}

TEST(ModelWords, AFolderWithoutAModelHasThoseOfEveryFamilyOnce) {
  std::vector<std::string> names;
  for (const HeadWords& head : model_words(TemporaryFolder().path()).heads) names.push_back(head.name);
  EXPECT_EQ(names.front(), words_of_usual_family().heads.front().name);
  std::sort(names.begin(), names.end());
  EXPECT_TRUE(std::adjacent_find(names.begin(), names.end()) == names.end());
  for (const char* name : {"contrastive", "image_classification", "pretraining"})
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
}

TEST(ModelWords, AModelOfAnotherFamilyIsRefusedByItsType) {
  const TemporaryFolder folder;
  for (const char* type : {"clip", "swin", "beit", "dinov2", "albert"}) {
    folder.write("config.json", R"({"model_type": ")" + std::string(type) + "\"}");
    try {
      model_words(folder.path());
      ADD_FAILURE() << type;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      EXPECT_EQ(error.problem(), "model_type = \"" + std::string(type) + "\"");
    }
  }
}

}  // namespace
}  // namespace bascule::test
