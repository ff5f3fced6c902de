// SPDX-License-Identifier: Apache-2.0
#include "src/base/digest.h"

#include <gtest/gtest.h>

namespace bascule {
namespace {

std::string sum_of(const std::string& text, bool uses_instructions = false) {
  Sha256 sum(uses_instructions);
  sum.add(text.data(), text.size());
  return sum.hex();
}

// FIPS 180-4's examples, and what sha256sum prints.
TEST(Sha256, GivesThePublishedSums) {
  EXPECT_EQ(sum_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sum_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sum_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sum_of(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, InstructionsGiveTheSameSums) {
  if (!Sha256::has_instructions()) GTEST_SKIP() << "this processor has no SHA instructions";
  std::string text;
  for (int i = 0; i < 300; ++i, text += static_cast<char>(i * 7)) EXPECT_EQ(sum_of(text, true), sum_of(text));
}

TEST(Sha256, DoesNotDependOnThePartsThatDataArrivesIn) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  for (std::size_t length = 0; length <= text.size(); ++length) {
    for (const std::size_t cut : {std::size_t{0}, length / 3, length / 2, length}) {
      Sha256 sum;
      sum.add(text.data(), cut);
      sum.add(text.data() + cut, length - cut);
      ASSERT_EQ(sum.hex(), sum_of(text.substr(0, length))) << length << " bytes, cut at " << cut;
    }
  }
}

}  // namespace
}  // namespace bascule
