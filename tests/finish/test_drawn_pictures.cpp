// SPDX-License-Identifier: Apache-2.0
#include "src/finish/judge_repeat.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

using Kind = PictureParting::Kind;
using Rows = std::vector<PictureLogRow>;

const Rows kRows = {{"00000.png", "a", "", 42, 1.0, 10, 0, {1, 2, 3}},
                    {"00001.png", "b", "x", 42, 1.0, 20, 1, {4, 5, 6}},
                    {"00002.png", "c", "", 42, 1.0, 30, 2, {7, 8, 9}}};

PictureParting parting_of(const std::function<void(Rows*)>& change) {
  Rows other = kRows;
  change(&other);
  return find_picture_parting(kRows, other);
}

TEST(DrawnPictures, AreEqualWhateverTimeTheyTook) {
  const PictureParting parting = parting_of([](Rows* rows) { rows->at(1).seconds = 7.0; });
  EXPECT_EQ(parting.kind, Kind::kNone);
  EXPECT_EQ(parting.equal, 3u);
  EXPECT_EQ(parting_text(parting), "");
}

// What is made first is named, though all that is made of it differs too.
TEST(DrawnPictures, PartWhereTheFirstOfThemDiffersFirst) {
  const std::pair<std::function<void(Rows*)>, const char*> kChanges[] = {
      {[](Rows* rows) { rows->at(1).prompt = "z"; }, "00001.png: the prompts differ"},
      {[](Rows* rows) { rows->at(1).negative_prompt = ""; }, "00001.png: the negative prompts differ"},
      {[](Rows* rows) { rows->at(1).latents.push_back(7); }, "00001.png: drawn with 2 calls of the UNet, and with 3"},
      {[](Rows* rows) {
         rows->at(1).latents = {0, 0, 0};
       },
       "00001.png: the noise that it begins with differs"},
      {[](Rows* rows) {
         rows->at(1).latents = {4, 0, 0};
       },
       "00001.png: the latents differ after call 1 of 2"},
      {[](Rows* rows) {
         rows->at(1).latents = {4, 5, 0};
       },
       "00001.png: the latents differ after call 2 of 2"},
      {[](Rows* rows) { rows->at(1).digest = 0; },
       "00001.png: the pixels differ, but not the latents that they are decoded from"}};
  for (const auto& [change, text] : kChanges) {
    const PictureParting parting = parting_of([change = change](Rows* rows) {
      change(rows);
      rows->at(1).digest = 0;
      rows->at(2).digest = 0;
    });
    EXPECT_EQ(parting_text(parting), text);
    EXPECT_EQ(parting.common, 3u);
    EXPECT_EQ(parting.equal, 1u);
    EXPECT_NE(kind_word(parting.kind), nullptr);
  }
}

TEST(DrawnPictures, ThatOneRunHasNotAreLeftAside) {
  const PictureParting parting = parting_of([](Rows* rows) { rows->erase(rows->begin()); });
  EXPECT_EQ(parting.kind, Kind::kNone);
  EXPECT_EQ(parting.common, 2u);
  EXPECT_EQ(find_picture_parting(kRows, {}).common, 0u);
}

TEST(DrawnPictures, AreReadInTheOrderOfTheList) {
  const TemporaryFolder folder;
  const auto line = [](const char* name) {
    return std::string("{\"file\": \"") + name +
           "\", \"prompt\": \"\", \"negative_prompt\": \"\", \"seed\": 1, \"noise\": 0, \"seconds\": 1.0, \"digest\": "
           "\"0000000000000001\", \"latents\": []}\n";
  };
  EXPECT_FALSE(has_pictures(folder.path()));
  EXPECT_NE(error_of([&] { drawn_pictures(folder.path()); }).find("has no pictures"), std::string::npos);
  EXPECT_NE(error_of([&] { drawn_pictures(folder.path() + "/absent"); }).find("no such folder"), std::string::npos);
  folder.write(kPictureLogFile, line("100000.png") + line("00010.png") + line("00002.png"));
  EXPECT_TRUE(has_pictures(folder.path()));
  const Rows rows = drawn_pictures(folder.path());
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].file, "00002.png");
  EXPECT_EQ(rows[2].file, "100000.png");
}

}  // namespace
}  // namespace bascule::test
