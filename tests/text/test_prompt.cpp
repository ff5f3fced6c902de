// SPDX-License-Identifier: Apache-2.0
#include "src/text/tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "src/base/error.h"
#include "src/json/json.h"
#include "src/text/tokenizer_kinds.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test_prompt {
namespace {

const std::string kData = std::string(BASCULE_TEST_DATA) + "/tokenizer/";

// Those of Stable Diffusion 1.x are padded with <|endoftext|>, those of 2.x with "!".
TEST(Prompt, IsCutAndPaddedAsTransformersDoesAndSaysWhatWasCut) {
  const Json forms = read_json_file(kData + "clip_forms.json");
  std::size_t compared = 0;
  for (const Json& form : forms["forms"]) {
    const Json* const prompts = form.find("prompts");
    if (prompts == nullptr) continue;
    const test::TemporaryFolder folder;
    for (const char* name : {"vocab.json", "merges.txt"})
      std::filesystem::copy_file(kData + "clip/" + name, folder.path() + "/" + name);
    for (const auto& [name, content] : form["files"].items()) folder.write(name, json_text(content));
    const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(folder.path());
    const std::unique_ptr<const TokenDecoder> decoder = load_token_decoder(folder.path());
    for (const Json& row : *prompts) {
      const EncodedPrompt prompt = encode_prompt(*tokenizer, *decoder, row["text"].string(), 77);
      EXPECT_EQ(Json(prompt.ids), row["ids"]) << row["text"].string();
      EXPECT_EQ(prompt.tokens_cut, row["tokens_cut"].integer()) << row["text"].string();
      EXPECT_EQ(prompt.text_cut, row["text_cut"].string()) << row["text"].string();
      ++compared;
    }
  }
  EXPECT_EQ(compared, 18u);
}

TEST(Prompt, ThatIsNotUtf8IsRefused) {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(kData + "clip");
  const std::unique_ptr<const TokenDecoder> decoder = load_token_decoder(kData + "clip");
  try {
    encode_prompt(*tokenizer, *decoder, "caf\xE9 noir", 77);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_EQ(error.problem(), "byte 3 is not UTF-8");
  }
}

}  // namespace
}  // namespace bascule::test_prompt
