// SPDX-License-Identifier: Apache-2.0
#include "src/train/model_words.h"

#include <gtest/gtest.h>

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

TEST(ModelWords, AFolderWithoutAModelHasThoseOfTheUsualFamily) {
  EXPECT_EQ(model_words(TemporaryFolder().path()).heads.size(), words_of_usual_family().heads.size());
}

TEST(ModelWords, AModelOfAnotherFamilyIsRefusedByItsType) {
  const TemporaryFolder folder;
  for (const char* type : {"clip", "deit", "beit", "dinov2", "roberta"}) {
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
