// SPDX-License-Identifier: Apache-2.0
// Entities of a text from tags of its tokens; tools/entities_against_transformers.py compares them with the pipeline's.
#include "src/ask/text_entities.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/ask/asked_text.h"
#include "src/json/json.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {
namespace {

const std::vector<std::string> kNames = {"O", "B-PER", "I-PER", "B-LOC", "MISC"};

// The entities of a text whose tokens have these tags, one a token, as "type[start,end)".
std::string entities(const std::string& kind, const std::string& text, const std::vector<int>& tags) {
  const std::string folder = std::string(BASCULE_TEST_DATA) + "/tokenizer/" + kind;
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(folder);
  const std::vector<std::string> texts = load_token_texts(folder);
  const std::vector<PlacedToken> tokens = tokenizer->place_tokens(text);
  EXPECT_EQ(tokens.size(), tags.size()) << text;
  std::vector<float> logits(tokens.size() * kNames.size(), 0.0f);
  for (std::size_t t = 0; t < tags.size(); ++t) logits[t * kNames.size() + static_cast<std::size_t>(tags[t])] = 100.0f;
  std::string shown;
  for (const TextEntity& one : text_entities(text, tokens, logits.data(), kNames, {*tokenizer, texts})) {
    EXPECT_NEAR(one.score, 1.0, 1e-12);
    shown += (shown.empty() ? "" : " ") + std::string(one.type) + "[" + std::to_string(one.start) + "," +
             std::to_string(one.end) + ")";
  }
  return shown;
}

TEST(TextEntities, AreGroupsOfWordsOfOneType) {
  EXPECT_EQ(entities("wordpiece", "the cat and a tree", {0, 1, 2, 0, 1}), "PER[4,11) PER[14,18)");
  EXPECT_EQ(entities("wordpiece", "the cat and a tree", {1, 1, 2, 3, 4}), "PER[0,3) PER[4,11) LOC[12,13) MISC[14,18)");
  EXPECT_EQ(entities("wordpiece", "the cat", {2, 2}), "PER[0,7)");
  EXPECT_EQ(entities("wordpiece", "the cat", {4, 4}), "MISC[0,7)");
  EXPECT_EQ(entities("wordpiece", "the cat", {0, 0}), "");
  EXPECT_EQ(entities("wordpiece", "", {}), "");
}

TEST(TextEntities, HaveTheTagOfAWordsFirstToken) {
  const std::string folder = std::string(BASCULE_TEST_DATA) + "/tokenizer/wordpiece";
  const std::size_t count = load_tokenizer(folder)->place_tokens("hedgehogs").size();
  ASSERT_GT(count, 1u);
  std::vector<int> tags(count + 1, 3);
  tags[0] = 1;
  EXPECT_EQ(entities("wordpiece", "hedgehogs a", tags), "PER[0,9) LOC[10,11)");
}

TEST(TextEntities, CountCharactersWhateverTheirBytes) {
  EXPECT_EQ(entities("wordpiece", "\xc3\xa9 a", {1, 3}), "PER[0,1) LOC[2,3)");
  const std::string folder = std::string(BASCULE_TEST_DATA) + "/tokenizer/roberta-50k";
  const std::size_t count = load_tokenizer(folder)->place_tokens("\xf0\x9f\x99\x82 cat").size();
  std::vector<int> tags(count, 0);
  tags.back() = 1;
  EXPECT_EQ(entities("roberta-50k", "\xf0\x9f\x99\x82 cat", tags), "PER[2,5)");
}

TEST(AskedText, TheLineOnATextThatIsCutCountsAllOfItsTokens) {
  const std::unique_ptr<const Tokenizer> tokenizer =
      load_tokenizer(std::string(BASCULE_TEST_DATA) + "/tokenizer/wordpiece");
  const AskedText asked = {"the cat and a tree", std::nullopt};
  for (const auto& encode : {encode_text, encode_places}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(encode(*tokenizer, asked, 5, "line 3").ids.size(), 5u);
    EXPECT_EQ(encode(*tokenizer, asked, 7, "line 4").ids.size(), 7u);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "bascule: line 3 has 7 tokens and is cut to 5\n");
  }
}

}  // namespace
}  // namespace bascule
