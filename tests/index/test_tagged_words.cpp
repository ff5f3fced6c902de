// SPDX-License-Identifier: Apache-2.0
// Rows of words with tags: what they hold, that a kept index holds the same, and what is refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/index/manifest.h"
#include "src/index/open_manifest.h"
#include "src/index/row_digests.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using test::TemporaryFolder;

ManifestColumns word_columns(std::int64_t classes = kMostClasses) {
  ManifestColumns columns{"", "tokens", "ner_tags", classes};
  columns.named_classes = columns.words = true;
  return columns;
}

std::vector<std::string> words_of(const Manifest& manifest, std::int64_t row) {
  std::vector<std::string> words;
  for (std::string_view text = manifest.row(row).text; !text.empty();) words.emplace_back(take_word(&text));
  return words;
}

const char kRows[] =
    "{\"tokens\": [\"New York\", \"\", \"is\"], \"ner_tags\": [\"B-LOC\", \"O\", \"O\"]}\n"
    "{\"tokens\": [\"Ada\"], \"ner_tags\": [\"B-PER\"], \"other\": 1}\n";

void expect_rows(const Manifest& manifest) {
  ASSERT_EQ(manifest.rows(), 2);
  EXPECT_TRUE(manifest.has_tags());
  EXPECT_FALSE(manifest.has_labels());
  EXPECT_EQ(words_of(manifest, 0), (std::vector<std::string>{"New York", "", "is"}));
  EXPECT_EQ(words_of(manifest, 1), std::vector<std::string>{"Ada"});
  EXPECT_EQ(manifest.class_names(), (std::vector<std::string>{"B-LOC", "O", "B-PER"}));
  EXPECT_EQ(manifest.tag(0, 0), 0);
  EXPECT_EQ(manifest.tag(0, 2), 1);
  EXPECT_EQ(manifest.tag(1, 0), 2);
  EXPECT_EQ(manifest.largest_label(), 2);
  EXPECT_EQ(manifest.first_row_of_class(2), 1);
  EXPECT_EQ(manifest.first_row_of_label(1), 0);
  EXPECT_EQ(manifest.first_row_of_label(3), -1);
  EXPECT_FALSE(manifest.has_one_label());
}

TEST(TaggedWords, AreInEveryRowOrInNone) {
  const TemporaryFolder folder;
  ManifestColumns columns = word_columns();
  columns.optional_labels = true;
  const std::string rows = std::string(kRows) + "{\"tokens\": [\"Bob\"]}\n";
  const auto said = [&](const std::string& all) {
    return test::error_of([&] { Manifest::load(folder.write("rows.jsonl", all), columns); });
  };
  EXPECT_NE(said(rows).find(":3: has no tags, but the rows before have; give every row tags, or none"),
            std::string::npos)
      << said(rows);
  const std::string bare = "{\"tokens\": [\"Bob\"]}\n", tagged = "{\"tokens\": [\"Bob\"], \"ner_tags\": [\"O\"]}\n";
  EXPECT_NE(said(bare + tagged).find(":2: has tags, but the rows before have none"), std::string::npos);
  // -1 for some words alone is a mistake.
  EXPECT_NE(said("{\"tokens\": [\"a\", \"b\"], \"ner_tags\": [0, -1]}\n").find("tag 2 of column \"ner_tags\" is -1"),
            std::string::npos);
  const std::string empty = folder.write("empty.jsonl", "{\"tokens\": [\"Bob\"], \"ner_tags\": []}\n");
  EXPECT_TRUE(Manifest::load(empty, columns).lacks_labels());
  EXPECT_THROW(Manifest::load(empty, word_columns()), Error);
}

TEST(TaggedWords, AreReadFromLinesAndFromAnArray) {
  TemporaryFolder folder;
  const std::string lines = kRows;
  Manifest manifest = Manifest::load(folder.write("rows.jsonl", lines), word_columns());
  expect_rows(manifest);
  expect_rows(Manifest::load(folder.write("rows.json", "[" + lines.substr(0, lines.find('\n')) + "," +
                                                           lines.substr(lines.find('\n') + 1) + "]"),
                             word_columns()));
  manifest.set_classes({5, 7, 6});
  EXPECT_EQ(manifest.tag(0, 1), 7);
  EXPECT_EQ(manifest.tag(1, 0), 6);
  manifest.take_out({0});
  EXPECT_EQ(manifest.tag(1, 0), 5);  // the numbers of the rows behind it stay
}

TEST(TaggedWords, AreOfTheFirstRowsAlone) {
  TemporaryFolder folder;
  Manifest manifest = Manifest::load(folder.write("rows.jsonl", kRows), word_columns());
  manifest.keep_first(1);
  EXPECT_EQ(manifest.class_names(), (std::vector<std::string>{"B-LOC", "O"}));
}

TEST(TaggedWords, KeepTheirTagsInAPart) {
  TemporaryFolder folder;
  const Manifest whole = Manifest::load(folder.write("rows.jsonl", std::string(kRows) + kRows), word_columns());
  const Manifest part = part_of(whole, {1, 2});
  ASSERT_EQ(part.rows(), 2);
  EXPECT_TRUE(part.has_tags());
  EXPECT_EQ(part.tag(0, 0), 2);
  EXPECT_EQ(part.tag(1, 0), 0);
  EXPECT_EQ(part.tag(1, 2), 1);
}

TEST(TaggedWords, AreTheSameFromAKeptIndex) {
  TemporaryFolder folder;
  IndexCache cache;
  cache.folder = folder.path() + "/cache";
  cache.smallest_rows = 1;
  const PathsSetting path(folder.write("rows.jsonl", kRows));
  expect_rows(open_manifest(path, word_columns(), cache).manifest);
  OpenedManifest kept = open_manifest(path, word_columns(), cache);
  expect_rows(kept.manifest);
  EXPECT_TRUE(kept.manifest.read_into_memory());
  expect_rows(kept.manifest);
}

TEST(TaggedWords, AreAnotherRowWhereATagIsAnother) {
  TemporaryFolder folder;
  const auto content = [&](const std::string& tags) {
    return row_content(
        Manifest::load(folder.write("rows.jsonl", "{\"tokens\": [\"a\", \"b\"], \"ner_tags\": " + tags + "}"),
                       word_columns(9)),
        0);
  };
  EXPECT_EQ(content("[1, 2]"), content("[1, 2]"));
  EXPECT_NE(content("[1, 2]"), content("[2, 1]"));
  EXPECT_NE(content("[1, 2]"), content("[1, 3]"));
}

TEST(TaggedWords, ThatAreWrongAreRefused) {
  TemporaryFolder folder;
  const struct {
    const char *row, *said;
  } kWrong[] = {
      {"{\"tokens\": [\"a\", \"b\"], \"ner_tags\": [\"O\"]}",
       "2 words in column \"tokens\", but 1 tag in column \"ner_tags\""},
      {"{\"tokens\": [], \"ner_tags\": []}", "column \"tokens\" has no words"},
      {"{\"tokens\": [\"a\"], \"ner_tags\": [1.5]}",
       "tag 1 of column \"ner_tags\" is 1.5, neither a name nor an integer"},
      {"{\"tokens\": [\"a\"], \"ner_tags\": [null]}", "tag 1 of column \"ner_tags\" is null"},
      {"{\"tokens\": [\"a\"], \"ner_tags\": [\"\"]}", "tag 1 of column \"ner_tags\" is \"\""},
      {"{\"tokens\": [\"a\"], \"ner_tags\": [9]}", "is 9; use a tag number from 0 to 8"},
      {"{\"tokens\": [\"a\"], \"ner_tags\": [-1]}", "is -1"},
      {"{\"tokens\": [\"a\", 2], \"ner_tags\": [\"O\", \"O\"]}", "word 2 of column \"tokens\" is not a string"},
      {"{\"tokens\": [\"a\\u0000\"], \"ner_tags\": [\"O\"]}", "contains a zero byte"},
      {"{\"tokens\": \"a\", \"ner_tags\": [\"O\"]}", "column \"tokens\" is \"a\", not a list of words"},
      {"{\"tokens\": [\"a\"], \"ner_tags\": \"O\"}", "column \"ner_tags\" is \"O\", not a list of tags"},
      {"{\"tokens\": [\"a\"]}", "no column \"ner_tags\""},
      {"{\"words\": [\"a\"], \"ner_tags\": [\"O\"]}", "no column \"tokens\""},
      {"{\"tokens\": [\"a\", \"b\"], \"ner_tags\": [\"O\", 1]}", "label 1 is a number, but \"O\" of "},
  };
  for (const auto& one : kWrong) {
    EXPECT_TRUE(test::fails(
        [&] { Manifest::load(folder.write("rows.jsonl", std::string(one.row) + "\n"), word_columns(9)); }, one.said))
        << one.row;
  }
  for (const char* const name : {"rows.csv", "rows.tsv"}) {
    EXPECT_TRUE(test::fails([&] { Manifest::load(folder.write(name, "tokens,ner_tags\na,O\n"), word_columns()); },
                            "use .jsonl or .json"))
        << name;
  }
}

}  // namespace
}  // namespace bascule
