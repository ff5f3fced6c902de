// SPDX-License-Identifier: Apache-2.0
// The index of a file of texts: what is embedded when, what is found, and what is refused.
#include "src/ask/text_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "tests/support/files.h"
#include "tests/support/own_products.h"
#include "tests/support/seeded.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

// Texts are numbers of degrees, and their embeddings the points of the unit circle there.
struct Indexed : testing::Test {
  TextIndex::Source source(const std::string& file, const std::string& model = "m") const {
    return {file, folder.path() + "/index.safetensors", model, 2};
  }
  std::unique_ptr<TextIndex> open(const std::string& file, const std::string& model = "m") {
    embedded.clear();
    said.clear();
    planned.clear();
    return std::make_unique<TextIndex>(
        source(file, model),
        [this](std::size_t bytes) {
          EXPECT_TRUE(embedded.empty());
          planned.push_back(bytes);
        },
        [this](const std::vector<std::string>& texts, std::vector<float>* embeddings) {
          for (const std::string& text : texts) {
            embedded.push_back(text);
            const std::vector<float> point = at(std::stod(text));
            embeddings->insert(embeddings->end(), point.begin(), point.end());
          }
        },
        [this](const std::string& line) { said = line.substr(line.find(": ") + 2); });
  }
  static std::vector<float> at(double degrees) {
    const double angle = degrees * 3.14159265358979 / 180.0;
    return {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))};
  }
  std::vector<std::string> found(const TextIndex& index, double degrees, std::size_t top, int thread_count = 1) const {
    OwnProducts products(thread_count);
    Threads threads(thread_count, false);
    std::vector<std::string> texts;
    for (const Neighbour& one : index.nearest(at(degrees), top, products, threads)) {
      const FoundText text = index.text(one.row);
      texts.push_back(text.text + " of " + text.name);
    }
    return texts;
  }
  TemporaryFolder folder;
  std::vector<std::string> embedded;
  std::string said;
  std::vector<std::size_t> planned;
};

TEST_F(Indexed, ItsMemoryIsPlannedBeforeAnythingIsEmbedded) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += std::to_string(i) + "\n";
  const std::string file = folder.write("texts.txt", text);
  open(file);
  ASSERT_EQ(planned.size(), 1u);
  EXPECT_GE(planned[0], 100 * (2 * sizeof(float) + 32));
  EXPECT_LT(planned[0], 100 * 200u);
  open(file);
  EXPECT_EQ(planned, std::vector<std::size_t>{100 * 8});
  folder.write("texts.txt", text + "100\n");
  open(file);
  EXPECT_EQ(embedded, std::vector<std::string>{"100"});
  ASSERT_EQ(planned.size(), 1u);
  EXPECT_LT(planned[0], 101 * 64 + 100u);
}

using Texts = std::vector<std::string>;

TEST_F(Indexed, FindsTheNearestTextsAndEmbedsThemOnce) {
  const std::string file = folder.write("degrees.txt",
                                        "\xEF\xBB\xBF"
                                        "90\n0\r\n\n45\n0\n180");
  auto index = open(file);
  EXPECT_EQ(embedded, (Texts{"90", "0", "45", "180"}));
  EXPECT_EQ(said, "4 texts embedded, 0 texts of before, 0 texts gone");
  EXPECT_EQ(index->texts(), 4);
  for (const int threads : {1, 3}) {
    EXPECT_EQ(found(*index, 80, 3, threads),
              (Texts{"90 of degrees.txt:1", "45 of degrees.txt:4", "0 of degrees.txt:2"}));
  }
  EXPECT_EQ(found(*index, 180, 9).size(), 4u);
  EXPECT_EQ(found(*index, 180, 1), (Texts{"180 of degrees.txt:6"}));
  index = open(file);
  EXPECT_EQ(embedded, Texts());
  EXPECT_EQ(said, "");
  EXPECT_EQ(found(*index, 1, 1), (Texts{"0 of degrees.txt:2"}));
}

TEST_F(Indexed, EmbedsWhatChangedAndAllForAnotherModel) {
  const std::string file = folder.write("degrees.txt", "90\n0\n45\n");
  (void)open(file);
  folder.write("degrees.txt", "30\n45\n90\n60\n30\n");
  auto index = open(file);
  EXPECT_EQ(embedded, (Texts{"30", "60"}));
  EXPECT_EQ(said, "2 texts embedded, 2 texts of before, 1 text gone");
  EXPECT_EQ(found(*index, 91, 4),
            (Texts{"90 of degrees.txt:3", "60 of degrees.txt:4", "45 of degrees.txt:2", "30 of degrees.txt:1"}));
  index = open(file, "another");
  EXPECT_EQ(embedded, (Texts{"30", "45", "90", "60"}));
  EXPECT_EQ(said, "4 texts embedded, 0 texts of before, 0 texts gone");
}

TEST_F(Indexed, ReadsObjectsWithTitlesAndIds) {
  const std::string file =
      folder.write("degrees.jsonl", "{\"_id\": \"a\", \"title\": \"1\", \"text\": \"x\"}\n{\"text\": \"90\"}\n");
  const auto index = open(file);
  EXPECT_EQ(embedded, (Texts{"1 x", "90"}));
  EXPECT_EQ(found(*index, 0, 2), (Texts{"1 x of a", "90 of degrees.jsonl:2"}));
}

// Equal products keep the order of the file; longer than what is read of a line at once.
TEST_F(Indexed, OrdersTiesByTheFileAndReadsLongLines) {
  const std::string zeros(9000, '0');
  const auto index = open(folder.write("t",
                                       "10\n"
                                       "10." +
                                           zeros + "\n" + "350\n20\n"));
  EXPECT_EQ(found(*index, 10, 2), (Texts{"10 of t:1", "10." + zeros + " of t:2"}));
  EXPECT_EQ(found(*index, 0, 3)[2], "350 of t:3");
}

// The order of exact products of whole numbers.
TEST_F(Indexed, FindsTheExactOrderAmongManyTexts) {
  Seeded random(7);
  std::string lines;
  std::vector<float> table;
  const std::int64_t width = 20, count = 3000;
  for (std::int64_t i = 0; i < count; ++i) lines += std::to_string(i) + "\n";
  for (std::int64_t i = 0; i < count * width; ++i) table.push_back(static_cast<float>(random.integer(-3, 3)));
  const TextIndex index(
      {folder.write("many.txt", lines), folder.path() + "/many.index", "m", width}, [](std::size_t) {},
      [&](const std::vector<std::string>& texts, std::vector<float>* embeddings) {
        for (const std::string& text : texts)
          embeddings->insert(embeddings->end(), table.begin() + std::stol(text) * width,
                             table.begin() + (std::stol(text) + 1) * width);
      },
      [](const std::string&) {});
  std::vector<float> query(static_cast<std::size_t>(width));
  for (float& value : query) value = static_cast<float>(random.integer(-3, 3));
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i);
  const std::vector<Neighbour> expected = nearest(query, table.data(), rows);
  OwnProducts products(2);
  Threads threads(2, false);
  const std::vector<Neighbour> ranked = index.nearest(query, 150, products, threads);
  ASSERT_EQ(ranked.size(), 150u);
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    EXPECT_EQ(ranked[i].row, expected[i].row);
    EXPECT_EQ(ranked[i].score, expected[i].score);
  }
}

TEST_F(Indexed, RefusesWhatIsNoIndexOrDamaged) {
  const auto of_folder = [&](std::string message) {
    for (std::size_t at; (at = message.find(folder.path() + "/")) != std::string::npos;)
      message.erase(at, folder.path().size() + 1);
    return message;
  };
  const auto error = [&](const std::string& file) { return of_folder(error_of([&] { (void)open(file); })); };
  EXPECT_EQ(error(folder.write("none.txt", "\n\n")), "none.txt: has no texts; add at least one");
  EXPECT_EQ(error(folder.write("bad.txt", "1\n\xff\n")), "bad.txt:2: byte 0 is not UTF-8; write it in UTF-8");
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/index.safetensors"));
  const std::string file = folder.write("degrees.txt", "90\n0\n");
  folder.write("index.safetensors", "no index");
  EXPECT_NE(error(file).find("index.safetensors"), std::string::npos);
  std::filesystem::remove(folder.path() + "/index.safetensors");
  const auto index = open(file);
  const std::string whole = read_file(folder.path() + "/index.safetensors");
  std::string damaged = whole;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::copy_n(static_cast<const char*>(static_cast<const void*>(&nan)), sizeof nan, damaged.end() - sizeof nan);
  folder.write("index.safetensors", damaged);
  EXPECT_EQ(of_folder(error_of([&] { (void)found(*open(file), 1, 1); })),
            "index.safetensors: is damaged: text 1 has an embedding that is not finite; remove it: the same command "
            "makes it again");
  folder.write("index.safetensors", whole.substr(0, whole.size() - 4));
  EXPECT_NE(error(file).find("index.safetensors"), std::string::npos);
}

}  // namespace
}  // namespace bascule::test
