// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/doctor/finding.h"
#include "src/json/json.h"
#include "src/pictures/png_file.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using ::testing::IsSubstring;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// 100 texts of 1 to 100 tokens, cut at 25.
TextFigures lengths() {
  TextFigures figures;
  figures.kind = "texts";
  figures.limit = 25;
  figures.texts = figures.longest = 100;
  figures.counts.assign(101, 1);
  figures.counts[0] = 0;
  return figures;
}

Diagnosis of_split(SplitFigures split) {
  split.name = "train";
  Diagnosis diagnosis;
  diagnosis.splits.push_back(std::move(split));
  return diagnosis;
}

Diagnosis with_example(const Example& example) {
  Diagnosis diagnosis;
  diagnosis.findings.push_back({Level::kWarning, "damaged_pictures", "1 picture", "", 1, {example}});
  return diagnosis;
}

std::string row_of(const std::string& page, const std::string& lengths) {
  const std::size_t begin = page.find("<th scope=\"row\">" + lengths + "</th>");
  return begin == std::string::npos ? "" : page.substr(begin, page.find("</tr>", begin) - begin);
}

TEST(DiagnosisText, TheLargestClassesComeFirst) {
  SplitFigures split;
  for (std::int64_t rows = 1; rows <= 10; ++rows) split.classes.push_back({"class" + std::to_string(rows), rows});
  EXPECT_PRED_FORMAT2(IsSubstring,
                      "10: class10 10, class9 9, class8 8, class7 7, class6 6, class5 5, class4 4, class3 3, ...\n",
                      diagnosis_text(of_split(split)));
}

TEST(DiagnosisText, BarsSayWhatIsCut) {
  SplitFigures split;
  split.texts = {lengths()};
  const std::string text = diagnosis_text(of_split(split));
  const auto line = [&](const std::string& range) {
    const std::size_t begin = text.find(range);
    return begin == std::string::npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
  };
  EXPECT_FALSE(has(line("10 to 19 "), "cut"));
  EXPECT_TRUE(has(line("20 to 29 "), "partly cut    █"));
  EXPECT_TRUE(has(line("30 to 39 "), "cut           █"));
}

TEST(DiagnosisText, ABarOfTextsThatAreAllShortEnoughIsNotCut) {
  SplitFigures split;
  split.texts = {lengths()};
  for (std::size_t length = 26; length < 30; ++length) split.texts[0].counts[length] = 0;
  EXPECT_FALSE(has(diagnosis_text(of_split(split)), "partly cut"));
  EXPECT_FALSE(has(diagnosis_html(of_split(split)), "partly cut"));
}

TEST(DiagnosisText, TheTimeOfAllOfTrainingIsThatOfAllEpochs) {
  Diagnosis diagnosis;
  TimeFigures& time = diagnosis.time.emplace();
  time.updates_of_epoch = 7;
  time.epochs = 3.0;
  time.epoch_seconds = 20.0;
  const std::string epoch = "7 updates, about 20.0 s without evaluation and saving; all of training, ";
  EXPECT_PRED_FORMAT2(IsSubstring, epoch + "3 epochs, 1 min 00 s\n", diagnosis_text(diagnosis));
  time.epochs = 1.0;
  EXPECT_PRED_FORMAT2(IsSubstring, epoch + "1 epoch, 20.0 s\n", diagnosis_text(diagnosis));
  time.epochs = 1.5;
  EXPECT_PRED_FORMAT2(IsSubstring, epoch + "1.5000 epochs, 30.0 s\n", diagnosis_text(diagnosis));
}

TEST(DiagnosisText, TheVerdictCountsProblems) {
  Diagnosis diagnosis;
  EXPECT_EQ(verdict_of(diagnosis), "nothing stops this run; 0 warnings, 0 notes");
  const auto add = [&](Level level) { diagnosis.findings.push_back({level, "check", "what", "", 1}); };
  add(Level::kFails);
  add(Level::kWarning);
  EXPECT_EQ(verdict_of(diagnosis), "1 problem stops this run; 1 warning, 0 notes");
  add(Level::kFails);
  EXPECT_EQ(verdict_of(diagnosis), "2 problems stop this run; 1 warning, 0 notes");
}

TEST(DiagnosisPage, TextsOfTheDataAreEscaped) {
  const std::string planted = "<script>alert(\"1\")</script> & more",
                    safe = "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; more";
  Diagnosis diagnosis;
  diagnosis.settings_file = planted;
  diagnosis.findings.push_back({Level::kNote, "cut_texts", planted, planted, 1, {{planted, {}}}});
  SplitFigures split;
  split.name = split.file = planted;
  split.classes = {{planted, 1}};
  diagnosis.splits.push_back(split);
  const std::string page = diagnosis_html(diagnosis);
  EXPECT_FALSE(has(page, "<script"));
  for (const char* const element :
       {"title>", "<h1 dir=\"auto\">", "</span> ", "<p>", "<code dir=\"auto\">", "<h3>", "<th scope=\"row\">"})
    EXPECT_TRUE(has(page, element + safe)) << element;
  EXPECT_TRUE(has(page, "0 rows, " + safe + "</p>"));
}

TEST(DiagnosisPage, APictureThatCannotBeDecodedIsNotShown) {
  const test::TemporaryFolder folder;
  const std::vector<std::uint8_t> pixels(3 * 8 * 4, 200);
  const std::string whole = folder.path() + "/whole.png", damaged = folder.write("damaged.png", "no picture");
  write_png(whole, {pixels.data(), 8, 4});
  EXPECT_TRUE(has(diagnosis_html(with_example({"a", {whole}})), "<li><img src=\"data:image/png;base64,"));
  EXPECT_TRUE(has(diagnosis_html(with_example({"a", {whole}})), "style=\"width:64px;height:32px\">"));
  EXPECT_TRUE(has(diagnosis_html(with_example({"a", {damaged}})), "<li><code"));
}

TEST(DiagnosisPage, BarsSayWhatIsCut) {
  SplitFigures split;
  split.texts = {lengths()};
  const std::string page = diagnosis_html(of_split(split));
  EXPECT_TRUE(has(row_of(page, "10 to 19"), "<td></td>"));
  EXPECT_TRUE(has(row_of(page, "20 to 29"), "<td>partly cut</td>"));
  EXPECT_TRUE(has(row_of(page, "30 to 39"), "<td>cut</td>"));
}

TEST(DiagnosisDocument, HasTheQuantilesOfLengths) {
  SplitFigures split;
  split.texts = {lengths()};
  const Json document = parse_json(diagnosis_json(of_split(split)), "document");
  const Json& texts = document["splits"][0]["texts"][0];
  EXPECT_EQ(texts["median"], 50);
  EXPECT_EQ(texts["percentile_99"], 99);
  EXPECT_EQ(texts["longest"], 100);
}

}  // namespace
}  // namespace bascule
