// SPDX-License-Identifier: Apache-2.0
#include "src/train/model_words.h"

#include <gtest/gtest.h>

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

TEST(ModelWords, AFolderWithoutAModelThatIsKnownHasThoseOfTheUsualFamily) {
  const TemporaryFolder folder;
  const std::size_t heads = words_of_usual_family().heads.size();
  EXPECT_EQ(model_words(folder.path()).heads.size(), heads);
  folder.write("config.json", R"({"model_type": "clip"})");
  EXPECT_EQ(model_words(folder.path()).heads.size(), heads);
}

}  // namespace
}  // namespace bascule::test
