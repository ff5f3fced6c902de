// SPDX-License-Identifier: Apache-2.0
#include "src/record/plan_data.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

using Names = std::vector<std::string>;

// Training rows with these labels, as JSON.
RunData data_of(const TemporaryFolder& folder, const Names& labels) {
  folder.write("a.jpg", "");
  std::string rows;
  for (const std::string& label : labels) rows += R"({"image": "a.jpg", "caption": "c", "label": )" + label + "}\n";
  ManifestColumns columns;
  columns.label = "label";
  columns.named_classes = true;
  columns.classes = 100;
  columns.values = LabelValues::kIfDecimal;
  RunData data;
  data.splits.emplace_back();
  data.splits[0].split = Split::kTrain;
  data.splits[0].manifest = std::make_unique<Manifest>(Manifest::load(folder.write("rows.jsonl", rows), columns));
  return data;
}

// Their classes, for a model with these names, or values.
DataClasses classes_of(const Names& labels, const Names& of_model, bool of_values = false) {
  const TemporaryFolder folder;
  const RunData data = data_of(folder, labels);
  ModelInputs model;
  model.class_names = of_model;
  model.has_values = of_values;
  return classes_of_data(data, model);
}
Names names_of(const Names& labels, const Names& of_model) { return classes_of(labels, of_model).names; }

TEST(DataClasses, NumbersHaveNamesUpToTheLargest) {
  EXPECT_EQ(names_of({"2", "0"}, {}), (Names{"LABEL_0", "LABEL_1", "LABEL_2"}));
  EXPECT_EQ(names_of({"2", "0"}, {"a", "b", "c"}), Names{}) << "the model has names";
}

TEST(DataClasses, ANoteNamesClassesWithoutRows) {
  const auto is_said = [](const Names& labels, const char* words) {
    return classes_of(labels, {}).note.find(words) != std::string::npos;
  };
  EXPECT_TRUE(is_said({"1", "2", "3"}, "; no row is of class 0"));
  EXPECT_TRUE(is_said({"1", "3"}, "; no row is of the classes 0 and 2"));
  EXPECT_TRUE(is_said({"0", "5"}, "; 4 of them have no row"));
  EXPECT_FALSE(is_said({"0", "1", "2"}, "row"));
}

TEST(DataClasses, StringsThatReadAsDecimalNumbersAreNoticed) {
  const auto are_noticed = [](const Names& labels) {
    const TemporaryFolder folder;
    return has_quoted_values(data_of(folder, labels));
  };
  EXPECT_TRUE(are_noticed({"\"0.1\"", "\"2\""}));
  EXPECT_FALSE(are_noticed({"\"1\"", "\"2\""}));
  EXPECT_FALSE(are_noticed({"\"0.1\"", "\"0.1x\""}));
  EXPECT_FALSE(are_noticed({"\"e\"", "\".\""}));
  EXPECT_FALSE(are_noticed({"1", "2"}));
  EXPECT_FALSE(are_noticed({"0.5", "2"}));
}

TEST(DataClasses, NamesAreSortedAndStayTheModelsWhereTheyAreTheSame) {
  EXPECT_EQ(names_of({"\"b\"", "\"a\"", "\"b\""}, {}), (Names{"a", "b"}));
  EXPECT_EQ(names_of({"\"b\"", "\"a\""}, {"b", "a"}), Names{});
  EXPECT_EQ(names_of({"\"b\"", "\"a\""}, {"b", "c"}), (Names{"a", "b"}));
}

TEST(DataClasses, OneDecimalNumberMakesValuesOfAll) {
  EXPECT_TRUE(classes_of({"2", "0.5"}, {"a", "b"}).are_values);
  EXPECT_TRUE(classes_of({"2", "1.0"}, {}).are_values);
  EXPECT_NE(classes_of({"2", "1.0"}, {}).note, "");
  EXPECT_FALSE(classes_of({"2", "1"}, {"a", "b", "c"}).are_values);
  EXPECT_EQ(classes_of({"2", "1.0"}, {}, true).note, "") << "the model's labels are values too";
  EXPECT_EQ(classes_of({"\"b\"", "\"a\""}, {}, true).names, (Names{"a", "b"}));
}

}  // namespace
}  // namespace bascule::test
