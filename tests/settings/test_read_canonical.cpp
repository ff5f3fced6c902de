// SPDX-License-Identifier: Apache-2.0
// test_print.cpp reads back what print_settings() writes. Here: what it does not write, and what older programs wrote.
#include "src/settings/read_canonical.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "tests/settings/read_text.h"
#include "tests/support/guarded_buffer.h"

namespace bascule {
namespace {

std::string refusal(const std::string& text) {
  try {
    read_canonical_settings(text, "bascule.json", test_words());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ReadCanonical, LinesThatAreNotCanonicalAreRefused) {
  for (const char* line :
       {"ring_slots=3", "ring_slots = three", "ring_slots = 3 ", "ring_slots = 3.0", "no_such_key = 1",
        "caption_column = \"a", "caption_column = \"\\u00zz\"", "caption_column = \"\\", "train_file = [",
        "train_file = [\"a\",\"b\"]", "preprocessing = \"neither\"", "on_bad_sample = true", "\"", "="}) {
    EXPECT_NE(refusal(std::string("[data]\n") + line + "\n").find("bascule.json:2: "), std::string::npos) << line;
  }
  EXPECT_NE(refusal("[training.groups]\nmatch = \"a\"\n"), "");
  EXPECT_NE(refusal("[data"), "") << "a table without its end";
}

// The last byte of each is followed by a page that cannot be read.
TEST(ReadCanonical, NothingBehindTheTextIsRead) {
  for (const std::string line :
       {"caption_column = \"\\", "caption_column = \"\\u00", "caption_column = \"\\u004", "caption_column = \"",
        "caption_column = ", "train_file = ", "train_file = [", "train_file = [\"a\",", "train_file = [\"a\\",
        "ring_slots = ", "random_resized_crop_scale = [", "random_resized_crop_scale = [0.5, "}) {
    const std::string text = "[data]\n" + line;
    test::GuardedBuffer<char> guarded(text.size());
    std::copy(text.begin(), text.end(), guarded.begin());
    EXPECT_THROW(read_canonical_settings({guarded.data(), guarded.size()}, "bascule.json", test_words()), Error)
        << line;
  }
}

TEST(ReadCanonical, KeysOfOlderProgramsKeepTheirMeaning) {
  const Settings settings =
      read_canonical_settings("[training]\nmax_steps = 3\n[machine]\nhuge_pages = false\n", "x", test_words());
  EXPECT_EQ(settings.machine.huge_pages, HugePages::kOff);
  EXPECT_EQ(settings.training.num_train_epochs, 0.0) << "as in a file without the key";
  EXPECT_EQ(settings.data.ring_slots, DataSettings().ring_slots);
}

TEST(ReadCanonical, GroupsAreKept) {
  const Settings once = settings_of(std::string(kLeast) +
                                    "[[training.groups]]\nmatch = \"a*\"\nfreeze = true\n"
                                    "[[training.groups]]\nmatch = \"b\"\nweight_decay = 0.5\n");
  EXPECT_EQ(print_settings(read_canonical_settings(print_settings(once), "x", test_words())), print_settings(once));
}

}  // namespace
}  // namespace bascule
