// SPDX-License-Identifier: Apache-2.0
// Rows that a manifest refuses, collected: the others are as if those had never been written.
#include "src/index/manifest_builder.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "src/index/manifest.h"
#include "src/index/open_manifest.h"
#include "tests/index/tar_writer.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test_refused_rows {
namespace {

using test::add_member;
using test::TemporaryFolder;

std::vector<std::string> rows_of(const Manifest& manifest) {
  std::vector<std::string> rows;
  for (std::int64_t i = 0; i < manifest.rows(); ++i) {
    const ManifestRow row = manifest.row(i);
    rows.push_back(std::string(row.image_path) + "|" + std::string(row.text) + "|" + std::to_string(row.label) + "|" +
                   std::to_string(row.image_id));
  }
  return rows;
}

std::vector<std::string> problems_of(const RefusedRows& refused) {
  std::vector<std::string> problems;
  for (const Error& error : refused.errors)
    problems.push_back(std::filesystem::path(error.where()).filename().string() + ": " + error.problem());
  return problems;
}

struct Refused : testing::Test {
  Refused() {
    columns.label = "label";
    columns.named_classes = true;
    columns.classes = 5;
    columns.refused = &refused;
  }
  TemporaryFolder folder;
  RefusedRows refused;
  ManifestColumns columns;
};

const std::vector<std::string> kKept = {"a.jpg|one|0|0", "b.jpg|two|1|1"};

TEST_F(Refused, LinesAreLeftOut) {
  const std::string lines = R"({"image": "a.jpg", "caption": "one", "label": "x"})"
                            "\n{\"image\": \"a.jpg\"\n[]\n"
                            R"({"image": "c.jpg", "caption": "no label"})"
                            "\n"
                            R"({"image": "d.jpg", "caption": "a number", "label": 3})"
                            "\n"
                            "{\"image\": \"e.jpg\", \"caption\": \"not UTF-8\", \"label\": \"\xFF\"}\n"
                            R"({"image": "b.jpg", "caption": "two", "label": "y"})"
                            "\n";
  const Manifest manifest = Manifest::load(folder.write("rows.jsonl", lines), columns);
  EXPECT_EQ(rows_of(manifest), kKept);
  EXPECT_EQ(manifest.class_names(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(manifest.where(1), folder.path() + "/rows.jsonl:7") << "the line of the file";
  EXPECT_EQ(refused.count, 5);
  ASSERT_EQ(refused.errors.size(), 5U);
  EXPECT_EQ(problems_of(refused)[0], "rows.jsonl:2: the row does not end on its line");
  EXPECT_EQ(problems_of(refused)[1], "rows.jsonl:3: not a JSON object");
  EXPECT_EQ(problems_of(refused)[3],
            "rows.jsonl:5: label 3 is a number, but \"x\" of " + folder.path() + "/rows.jsonl:1 is a name");
}

TEST_F(Refused, ElementsOfAnArrayAreLeftOut) {
  const Manifest manifest =
      Manifest::load(folder.write("rows.json", R"([{"image": "a.jpg", "caption": "one", "label": "x"}, 7, {"image": ""},
                                    {"image": "b.jpg", "caption": "two", "label": "y"}])"),
                     columns);
  EXPECT_EQ(rows_of(manifest), kKept);
  EXPECT_EQ(refused.count, 2);
}

TEST_F(Refused, RecordsOfATableAreLeftOut) {
  const Manifest manifest = Manifest::load(
      folder.write("rows.csv", "image,caption,label\na.jpg,one,x\nb.jpg,two\n,none,x\nc.jpg,minus,-1\nb.jpg,two,y\n"),
      columns);
  EXPECT_EQ(rows_of(manifest), kKept);
  EXPECT_EQ(problems_of(refused), (std::vector<std::string>{"rows.csv:3: 2 fields, but the header has 3",
                                                            "rows.csv:4: the picture's path is empty",
                                                            "rows.csv:5: label \"label\" is \"-1\""}));
}

TEST_F(Refused, SamplesOfAShardAreLeftOut) {
  std::string tar;
  const std::vector<std::array<std::string, 3>> samples = {
      {"a", "one", "x"}, {"b", "\xFF", "x"}, {"c", "no label", ""}, {"b", "two", "y"}, {"a", "again", "x"}};
  for (const auto& [key, caption, label] : samples) {
    add_member(&tar, key + ".jpg", "picture");
    add_member(&tar, key + ".txt", caption);
    if (!label.empty()) add_member(&tar, key + ".cls", label);
  }
  folder.write("s-0.tar", test::with_end(tar));
  const Manifest manifest = Manifest::load(folder.path() + "/s-0.tar", columns);
  EXPECT_EQ(rows_of(manifest), kKept);
  EXPECT_EQ(refused.count, 3);
  EXPECT_EQ(problems_of(refused).back(), "s-0.tar: a.jpg: the sample a occurs twice");
}

TEST_F(Refused, RowsOfWordsAreLeftOut) {
  columns.image = "";
  columns.text = "tokens";
  columns.words = true;
  const Manifest manifest = Manifest::load(folder.write("rows.jsonl",
                                                        "{\"tokens\": [\"a\", \"b\"], \"label\": [\"X\", 1]}\n"
                                                        "{\"tokens\": [\"c\"], \"label\": [\"O\", \"O\"]}\n"
                                                        "{\"tokens\": [\"d\", \"e\"], \"label\": [\"O\", \"B\"]}\n"),
                                           columns);
  ASSERT_EQ(manifest.rows(), 1);
  EXPECT_EQ(manifest.class_names(), (std::vector<std::string>{"O", "B"}));
  EXPECT_EQ(manifest.tag(0, 0), 0);
  EXPECT_EQ(manifest.tag(0, 1), 1);
  EXPECT_EQ(refused.count, 2);
}

// Read to the end before it is known that labels are no values.
TEST_F(Refused, NumbersThatAreNoClassesAreLeftOut) {
  columns.values = LabelValues::kIfDecimal;
  const std::string header = "image,caption,label\na.jpg,one,0\nc.jpg,none,-1\n";
  const Manifest manifest = Manifest::load(folder.write("rows.csv", header + "d.jpg,three\nb.jpg,two,1\n"), columns);
  EXPECT_EQ(rows_of(manifest), kKept);
  EXPECT_EQ(problems_of(refused), (std::vector<std::string>{"rows.csv:3: label \"label\" is \"-1\"",
                                                            "rows.csv:4: 2 fields, but the header has 3"}));
  refused = RefusedRows();
  EXPECT_TRUE(Manifest::load(folder.write("values.csv", header + "b.jpg,two,0.5\n"), columns).has_values());
  EXPECT_EQ(refused.count, 0);
}

TEST_F(Refused, WhereAllAreRefusedTheFirstIsThrown) {
  try {
    Manifest::load(folder.write("rows.jsonl", "{}\n[]\n"), columns);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), folder.path() + "/rows.jsonl:1");
  }
}

TEST_F(Refused, AnIndexThatLacksRowsIsNotKept) {
  const std::string file = folder.write("rows.csv", "image,caption,label\na.jpg,one,x\nb.jpg,two\n");
  folder.write("a.jpg", "picture");
  const IndexCache cache{folder.path() + "/cache", 1};
  EXPECT_EQ(open_manifest(file, columns, cache).manifest.rows(), 1);
  EXPECT_FALSE(std::filesystem::exists(cache.folder));
  columns.refused = nullptr;
  EXPECT_THROW(open_manifest(file, columns, cache), Error);
}

TEST_F(Refused, OfManyTheFirstAreKept) {
  std::string lines = "{\"image\": \"a.jpg\", \"caption\": \"one\", \"label\": \"x\"}\n";
  for (int i = 0; i < 100; ++i) lines += "{}\n";
  EXPECT_EQ(Manifest::load(folder.write("rows.jsonl", lines), columns).rows(), 1);
  EXPECT_EQ(refused.count, 100);
  EXPECT_EQ(refused.errors.size(), RefusedRows::kMostErrors);
}

}  // namespace
}  // namespace bascule::test_refused_rows
