// SPDX-License-Identifier: Apache-2.0
// Labels that are values where one of them is a decimal number, and classes where none is.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "src/index/manifest.h"
#include "src/index/open_manifest.h"
#include "src/index/row_digests.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test_label_values {
namespace {

using test::TemporaryFolder;

ManifestColumns columns_with(LabelValues values, std::int64_t classes = 10) {
  ManifestColumns columns;
  columns.image = "";
  columns.text = "text";
  columns.label = "label";
  columns.classes = classes;
  columns.named_classes = true;
  columns.values = values;
  return columns;
}

std::string json_rows(const std::vector<std::string>& labels) {
  std::string rows;
  for (const std::string& label : labels) rows += R"({"text": "t", "label": )" + label + "}\n";
  return rows;
}

std::string csv_rows(const std::vector<std::string>& labels) {
  std::string rows = "text,label\n";
  for (const std::string& label : labels) rows += "t," + label + "\n";
  return rows;
}

std::vector<float> values_of(const Manifest& manifest) {
  std::vector<float> values;
  for (std::int64_t row = 0; row < manifest.rows(); ++row) values.push_back(manifest.row(row).value);
  return values;
}

std::string refusal_of(const std::string& path, const ManifestColumns& columns) {
  return test::error_of([&] { Manifest::load(path, columns); });
}

TEST(LabelValues, MinusOneIsAValueInATestFileToo) {
  const TemporaryFolder folder;
  ManifestColumns columns = columns_with(LabelValues::kAlways);
  columns.optional_labels = true;
  for (const std::string& path :
       {folder.write("rows.jsonl", json_rows({"-1", "2.5"})), folder.write("rows.csv", csv_rows({"-1", "2.5"}))})
    EXPECT_EQ(values_of(Manifest::load(path, columns)), (std::vector<float>{-1.0f, 2.5f})) << path;
}

TEST(LabelValues, AreMissingWhereEachOneIsMinusOne) {
  const TemporaryFolder folder;
  ManifestColumns columns = columns_with(LabelValues::kAlways);
  columns.optional_labels = true;
  for (const auto& [labels, lacks] : {std::pair<std::vector<std::string>, bool>{{"-1", "-1.0"}, true},
                                      {{"-1", "2.5"}, false},
                                      {{"2.5", "-1"}, false},
                                      {{"-2", "-3.5"}, false},
                                      {{"-0.5", "-1.5"}, false},
                                      {{"1", "1"}, false}}) {
    EXPECT_EQ(Manifest::load(folder.write("rows.jsonl", json_rows(labels)), columns).lacks_labels(), lacks)
        << labels[0] << " " << labels[1];
  }
}

TEST(LabelValues, OneDecimalNumberMakesValuesOfAll) {
  const TemporaryFolder folder;
  const std::vector<std::string> labels = {"3", "2.5", "-1", "1e-3", "70000", "4.0"};
  for (const auto& [name, rows] : {std::pair{"a.jsonl", json_rows(labels)}, {"a.csv", csv_rows(labels)}}) {
    const Manifest manifest = Manifest::load(folder.write(name, rows), columns_with(LabelValues::kIfDecimal));
    EXPECT_TRUE(manifest.has_values()) << name;
    EXPECT_TRUE(manifest.has_labels()) << name;
    EXPECT_TRUE(manifest.class_names().empty()) << name;
    EXPECT_EQ(values_of(manifest), (std::vector<float>{3.0f, 2.5f, -1.0f, 0.001f, 70000.0f, 4.0f})) << name;
    EXPECT_EQ(manifest.row(0).label, -1) << name;
  }
}

TEST(LabelValues, AnExponentAloneMakesADecimalNumber) {
  const TemporaryFolder folder;
  for (const char* const label : {"2e1", "2E1"}) {
    for (const auto& [name, rows] :
         {std::pair{"a.jsonl", json_rows({label, "3"})}, {"a.csv", csv_rows({label, "3"})}}) {
      const Manifest manifest = Manifest::load(folder.write(name, rows), columns_with(LabelValues::kIfDecimal));
      EXPECT_TRUE(manifest.has_values()) << name << " " << label;
      EXPECT_EQ(values_of(manifest), (std::vector<float>{20.0f, 3.0f})) << name << " " << label;
    }
  }
}

TEST(LabelValues, HaveOneSign) {
  const TemporaryFolder folder;
  ManifestColumns columns = columns_with(LabelValues::kAlways);
  columns.named_classes = false;
  EXPECT_EQ(values_of(Manifest::load(folder.write("a.csv", csv_rows({"+1.5", "-1.5", "+.5"})), columns)),
            (std::vector<float>{1.5f, -1.5f, 0.5f}));
  for (const char* const label : {"+-1.5", "-+1.5", "--1.5", "++1.5", "+"})
    EXPECT_NE(refusal_of(folder.write("a.csv", csv_rows({label})), columns).find("label \"label\" is"),
              std::string::npos)
        << label;
}

TEST(LabelValues, IntegersAloneAreClassesUnlessTheyMustBeValues) {
  const TemporaryFolder folder;
  for (const auto& [name, rows] :
       {std::pair{"a.jsonl", json_rows({"3", "0", "9"})}, {"a.csv", csv_rows({"3", "0", "9"})}}) {
    const std::string path = folder.write(name, rows);
    for (const std::int64_t classes : {10, 60000}) {
      const Manifest manifest = Manifest::load(path, columns_with(LabelValues::kIfDecimal, classes));
      EXPECT_FALSE(manifest.has_values());
      EXPECT_EQ(manifest.row(0).label, 3);
      EXPECT_EQ(manifest.row(2).label, 9);
      EXPECT_EQ(manifest.largest_label(), 9);
    }
    EXPECT_TRUE(Manifest::load(path, columns_with(LabelValues::kAlways)).has_values());
  }
  const Manifest negative =
      Manifest::load(folder.write("b.jsonl", json_rows({"-3", "0"})), columns_with(LabelValues::kAlways));
  EXPECT_EQ(values_of(negative), (std::vector<float>{-3.0f, 0.0f}));
}

TEST(LabelValues, AnIntegerThatIsNoClassIsRefusedWithoutADecimalNumber) {
  const TemporaryFolder folder;
  const ManifestColumns columns = columns_with(LabelValues::kIfDecimal);
  for (const char* const label : {"10", "-1", "9223372036854775808"}) {
    for (const auto& [name, rows] :
         {std::pair{"a.jsonl", json_rows({"3", label, "-7"})}, {"a.csv", csv_rows({"3", label, "-7"})}}) {
      const std::string refusal = refusal_of(folder.write(name, rows), columns);
      const std::string line = std::string(name) == "a.csv" ? ":3: " : ":2: ";
      EXPECT_NE(refusal.find(name + line + "label \"label\" is " + label +
                             "; use a class number from 0 to 9, or names or decimal numbers in every row"),
                std::string::npos)
          << refusal;
    }
  }
}

// Beyond 64 bits JSON gives a number with an exponent, which is what is shown.
TEST(LabelValues, AnIntegerOfMoreThan64BitsIsNoDecimalNumber) {
  const TemporaryFolder folder;
  const ManifestColumns columns = columns_with(LabelValues::kIfDecimal);
  for (const char* const label : {"18446744073709551616", "-9223372036854775809", "99999999999999999999"}) {
    const std::string refusal = refusal_of(folder.write("a.jsonl", json_rows({"3", label})), columns);
    EXPECT_NE(refusal.find("a.jsonl:2: label \"label\" is "), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("; use a class number from 0 to 9"), std::string::npos) << refusal;
  }
  const Manifest manifest =
      Manifest::load(folder.write("b.jsonl", json_rows({"0.5", "18446744073709551616"})), columns);
  EXPECT_EQ(values_of(manifest), (std::vector<float>{0.5f, 0x1p64f}));
}

TEST(LabelValues, NamesStayNamesAndAreNotMixedWithNumbers) {
  const TemporaryFolder folder;
  const ManifestColumns columns = columns_with(LabelValues::kIfDecimal);
  for (const auto& [name, rows] :
       {std::pair{"a.jsonl", json_rows({"\"cat\"", "\"2.5\""})}, {"a.csv", csv_rows({"cat", "nan"})}}) {
    const Manifest manifest = Manifest::load(folder.write(name, rows), columns);
    EXPECT_FALSE(manifest.has_values());
    EXPECT_EQ(manifest.class_names().size(), 2u);
  }
  EXPECT_NE(refusal_of(folder.write("b.jsonl", json_rows({"2.5", "\"cat\""})), columns)
                .find(":2: label \"cat\" is a name, but 2.5 of " + folder.path() + "/b.jsonl:1 is a number"),
            std::string::npos);
  EXPECT_NE(refusal_of(folder.write("b.jsonl", json_rows({"\"cat\"", "2.5"})), columns)
                .find(":2: label 2.5 is a number, but \"cat\" of " + folder.path() + "/b.jsonl:1 is a name"),
            std::string::npos);
  for (const char* const label : {"1e999", "inf", ".", "1.5x"}) {
    const std::string path = folder.write("c.csv", csv_rows({"1.5", label}));
    EXPECT_NE(refusal_of(path, columns), "no error") << label;
  }
}

// The label that the writer did not mean may be the earlier one: a code that reads as a number, a missing value.
TEST(LabelValues, AMixtureShowsHowTheFirstLabelWasRead) {
  const TemporaryFolder folder;
  const ManifestColumns columns = columns_with(LabelValues::kIfDecimal);
  const std::string first = folder.path() + "/a.csv:2 ";
  std::string begin = "a";  // of a long name, which is cut behind a character
  for (int i = 0; i < 19; ++i) begin += "\u00e9";
  for (const auto& [labels, problem] : {
           std::pair{std::vector<std::string>{"1E5", "2F7"},
                     "label \"2F7\" is a name, but 1E5 of " + first + "was read as the number 100000"},
           {{"nan", "1.5"}, "label 1.5 is a number, but \"nan\" of " + first + "is a name"},
           {{"nan", "7"}, "label 7 is a number, but \"nan\" of " + first + "is a name"},
           {{"7", "cat"}, "label \"cat\" is a name, but 7 of " + first + "is a number"},
           {{"7", begin + "\u00e9"}, "label \"" + begin + "\" is a name, but 7 of " + first + "is a number"},
           {{"0.50", "cat"}, "label \"cat\" is a name, but 0.50 of " + first + "was read as the number 0.5"},
       })
    EXPECT_EQ(refusal_of(folder.write("a.csv", csv_rows(labels)), columns),
              folder.path() + "/a.csv:3: " + problem +
                  "; use names or numbers throughout; in a .jsonl file a string is always a name");
}

TEST(LabelValues, AreShownAsTheyAreWritten) {
  const TemporaryFolder folder;
  const std::string zeros = "; a class number has no leading zeros";
  for (const auto& [label, more] :
       {std::pair<std::string, std::string>{"01", zeros}, {"000", zeros}, {"+1", ""}, {"16777217", ""}, {"-0", ""}}) {
    const std::string path = folder.write("a.csv", csv_rows({label, "2"}));
    EXPECT_EQ(refusal_of(path, columns_with(LabelValues::kIfDecimal)),
              path + ":2: label \"label\" is " + label +
                  "; use a class number from 0 to 9, or names or decimal numbers in every row" + more);
    EXPECT_EQ(refusal_of(path, columns_with(LabelValues::kNone)),
              path + ":2: label \"label\" is \"" + label + "\"; use a class number from 0 to 9, or names in every row" +
                  more);
  }
}

TEST(LabelValues, SeveralLabelsOfARowAreRefusedByName) {
  const TemporaryFolder folder;
  EXPECT_NE(refusal_of(folder.write("a.jsonl", json_rows({"1", "[0, 1]"})), columns_with(LabelValues::kIfDecimal))
                .find(":2: label \"label\" is a list; several labels at once are not supported: give each row one"),
            std::string::npos);
}

TEST(LabelValues, ArePartOfWhatARowIsToACheckpoint) {
  const TemporaryFolder folder;
  const ManifestColumns columns = columns_with(LabelValues::kIfDecimal);
  const Manifest before = Manifest::load(folder.write("a.jsonl", json_rows({"3", "0.5"})), columns),
                 behind = Manifest::load(folder.write("b.jsonl", json_rows({"3", "0.75"})), columns);
  EXPECT_EQ(row_content(before, 0), row_content(behind, 0));
  EXPECT_NE(row_content(before, 1), row_content(behind, 1));
}

TEST(LabelValues, AreTheSameFromACachedIndex) {
  const TemporaryFolder folder, kept;
  const IndexCache cache{kept.path() + "/bascule", 1};
  const std::string path = folder.write("a.jsonl", json_rows({"3", "2", "0.5"}));
  const ManifestColumns columns = columns_with(LabelValues::kIfDecimal);
  const OpenedManifest first = open_manifest(path, columns, cache), second = open_manifest(path, columns, cache);
  EXPECT_NE(first.note, "");
  EXPECT_EQ(second.note, "");
  EXPECT_TRUE(second.manifest.has_values());
  EXPECT_EQ(values_of(second.manifest), values_of(first.manifest));
  EXPECT_NE(open_manifest(path, columns_with(LabelValues::kAlways), cache).note, "") << "another way to read it";
}

}  // namespace
}  // namespace bascule::test_label_values
