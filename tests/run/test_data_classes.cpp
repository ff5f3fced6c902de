// SPDX-License-Identifier: Apache-2.0
#include "src/run/data_classes.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

using Names = std::vector<std::string>;

// The names of the classes of training rows with these labels, as JSON.
Names names_of(const Names& labels, const Names& of_model) {
  const TemporaryFolder folder;
  folder.write("a.jpg", "");
  std::string rows;
  for (const std::string& label : labels) rows += R"({"image": "a.jpg", "caption": "c", "label": )" + label + "}\n";
  ManifestColumns columns;
  columns.label = "label";
  columns.named_classes = true;
  columns.classes = 100;
  RunData data;
  data.splits.emplace_back();
  data.splits[0].split = Split::kTrain;
  data.splits[0].manifest = std::make_unique<Manifest>(Manifest::load(folder.write("rows.jsonl", rows), columns));
  return classes_of_data(data, of_model).names;
}

TEST(DataClasses, NumbersHaveNamesUpToTheLargest) {
  EXPECT_EQ(names_of({"2", "0"}, {}), (Names{"LABEL_0", "LABEL_1", "LABEL_2"}));
  EXPECT_EQ(names_of({"2", "0"}, {"a", "b", "c"}), Names{}) << "the model has names";
}

TEST(DataClasses, NamesAreSortedAndStayTheModelsWhereTheyAreTheSame) {
  EXPECT_EQ(names_of({"\"b\"", "\"a\"", "\"b\""}, {}), (Names{"a", "b"}));
  EXPECT_EQ(names_of({"\"b\"", "\"a\""}, {"b", "a"}), Names{});
  EXPECT_EQ(names_of({"\"b\"", "\"a\""}, {"b", "c"}), (Names{"a", "b"}));
}

}  // namespace
}  // namespace bascule::test
