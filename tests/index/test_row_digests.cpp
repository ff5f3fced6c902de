// SPDX-License-Identifier: Apache-2.0
#include "src/index/row_digests.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/index/open_manifest.h"
#include "src/loader/masking.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;
using Numbers = std::vector<std::int64_t>;

struct Row {
  std::string picture;
  std::string caption;
  std::size_t bytes;  // of the picture
};

// A manifest of small files that are no pictures: only names, sizes and captions count here.
Manifest manifest_of(const test::TemporaryFolder& folder, const std::vector<Row>& rows) {
  std::ofstream manifest(folder.path() + "/rows.jsonl");
  for (const Row& row : rows) {
    std::ofstream(folder.path() + "/" + row.picture) << std::string(row.bytes, 'x');
    manifest << "{\"image\": \"" << row.picture << "\", \"caption\": \"" << row.caption << "\"}\n";
  }
  manifest.close();
  return open_manifest(folder.path() + "/rows.jsonl", {}, {}).manifest;
}

std::vector<Row> some_rows(int count) {
  std::vector<Row> rows;
  for (int i = 0; i < count; ++i)
    rows.push_back({"p" + std::to_string(i), "caption " + std::to_string(i), 10 + static_cast<std::size_t>(i)});
  return rows;
}

class RowDigests : public testing::Test {
 protected:
  // As a checkpoint keeps them, with the pictures of these rows found bad.
  RowsOfCheckpoint kept(const Manifest& manifest, Numbers bad) {
    std::vector<BadRow> rows(10);
    rows.resize(find_bad_rows(manifest, bad, rows));
    return {manifest.rows(), row_blocks(manifest), manifest.taken_out(), rows};
  }
  RowsComparison compared(const RowsOfCheckpoint& then, const std::vector<Row>& now) {
    const test::TemporaryFolder folder;
    return compare_rows(manifest_of(folder, now), then);
  }

  test::TemporaryFolder folder_;
};

TEST_F(RowDigests, TheSameRowsElsewhereAreTheSame) {
  const RowsOfCheckpoint then = kept(manifest_of(folder_, some_rows(300)), {});
  EXPECT_EQ(then.blocks.size(), 150U);  // two rows each: at most 256 blocks
  const RowsComparison same = compared(then, some_rows(300));
  EXPECT_EQ(same.problem, "");
  EXPECT_TRUE(same.mended.empty());
  EXPECT_TRUE(same.taken_out.empty());
}

TEST_F(RowDigests, ARowThatIsDifferentIsNamed) {
  const RowsOfCheckpoint then = kept(manifest_of(folder_, some_rows(20)), {7});
  for (const int i : {0, 6, 8, 19}) {
    const std::size_t row = static_cast<std::size_t>(i);
    const std::string name = "row " + std::to_string(i + 1) + " has a different text, label";
    std::vector<Row> rows = some_rows(20);
    rows[row].caption += "!";
    EXPECT_EQ(compared(then, rows).problem.find(name), 0U) << i;
    rows = some_rows(20);
    rows[row].bytes += 1;
    EXPECT_EQ(compared(then, rows).problem.find(name), 0U) << i;
    rows = some_rows(20);
    rows[row].picture = "other";
    EXPECT_EQ(compared(then, rows).problem.find(name), 0U) << i;
  }
}

TEST_F(RowDigests, EveryTextOfARowCounts) {
  const ManifestColumns columns{"", "a", "", 2, "b", {"c"}};
  const auto content_of = [&](const std::string& row) {
    return row_content(Manifest::load(folder_.write("rows.csv", "a,b,c\n" + row + "\n"), columns), 0);
  };
  EXPECT_NE(content_of("1,2,3"), content_of("1,2,4"));
  EXPECT_NE(content_of("1,2,3"), content_of("1,3,2"));
}

TEST_F(RowDigests, RowsThatWereAddedOrAreGoneAreCounted) {
  const RowsOfCheckpoint then = kept(manifest_of(folder_, some_rows(20)), {7});
  EXPECT_EQ(compared(then, some_rows(21)).problem, "it has 21 rows instead of 20");
  EXPECT_EQ(compared(then, some_rows(18)).problem,
            "it has 18 rows instead of 20; a row may be removed only if the run found its picture bad");
}

TEST_F(RowDigests, ABadRowMayBeMended) {
  const RowsOfCheckpoint then = kept(manifest_of(folder_, some_rows(20)), {7});
  std::vector<Row> rows = some_rows(20);
  rows[7] = {"better", "and another caption", 99};
  const RowsComparison mended = compared(then, rows);
  EXPECT_EQ(mended.problem, "");
  ASSERT_EQ(mended.mended.size(), 1U);
  EXPECT_EQ(mended.mended[0].row, 7);
  EXPECT_FALSE(mended.mended[0].taken_out);
  EXPECT_EQ(mended.mended[0].bytes_then, 17);
  EXPECT_EQ(mended.mended[0].bytes_now, 99);
}

TEST_F(RowDigests, RowsOfMissingPicturesAreBadThoughNobodyCameToThem) {
  for (const bool share : {false, true}) {
    std::vector<Row> rows = some_rows(20);
    if (share) rows.push_back({"p7", "again", 17});
    const test::TemporaryFolder folder;
    manifest_of(folder, rows);
    fs::remove(folder.path() + "/p7");
    const Manifest manifest =
        open_manifest(folder.path() + "/rows.jsonl", {}, {}, MissingPictures::kAreSkipped).manifest;
    const RowsOfCheckpoint then = kept(manifest, {3});
    ASSERT_EQ(then.bad.size(), share ? 3U : 2U);
    EXPECT_EQ(kept(manifest, {}).bad.size(), share ? 2U : 1U);
    const RowsComparison restored = compared(then, rows);
    EXPECT_EQ(restored.problem, "");
    ASSERT_EQ(restored.mended.size(), share ? 2U : 1U);
    EXPECT_EQ(restored.mended[0].row, 7);
    EXPECT_EQ(restored.mended[0].bytes_then, 0);
    EXPECT_EQ(restored.mended[0].bytes_now, 17);
    rows.erase(rows.begin() + 7);
    EXPECT_EQ(compared(then, rows).taken_out, Numbers{7});
  }
}

TEST_F(RowDigests, OnlyABadRowMayBeTakenOut) {
  const RowsOfCheckpoint then = kept(manifest_of(folder_, some_rows(20)), {7, 7, 19});
  for (int gone = 0; gone < 20; ++gone) {
    std::vector<Row> rows = some_rows(20);
    rows.erase(rows.begin() + gone);
    const RowsComparison without = compared(then, rows);
    EXPECT_EQ(without.problem.empty(), gone == 7 || gone == 19) << gone;
    if (without.problem.empty()) {
      EXPECT_EQ(without.taken_out, Numbers{gone});
    }
  }
}

TEST_F(RowDigests, AllRowsOfABadPictureAreBad) {
  std::vector<Row> rows = some_rows(6);
  rows.push_back({"p2", "again", 12});
  const RowsOfCheckpoint then = kept(manifest_of(folder_, rows), {2});
  ASSERT_EQ(then.bad.size(), 2U);
  EXPECT_EQ(then.bad[0].row, 2);
  EXPECT_EQ(then.bad[1].row, 6);
  rows.erase(rows.begin() + 2);
  rows.pop_back();
  EXPECT_EQ(compared(then, rows).taken_out, (Numbers{2, 6}));
}

TEST_F(RowDigests, RowsThatAreGoneStayNumbered) {
  std::vector<Row> rows = some_rows(20);
  rows.erase(rows.begin() + 7);
  Manifest manifest = manifest_of(folder_, rows);
  manifest.take_out({7});
  EXPECT_EQ(manifest.rows(), 20);
  EXPECT_TRUE(manifest.is_taken_out(7));
  EXPECT_EQ(manifest.row(6).text, "caption 6");
  EXPECT_EQ(manifest.row(8).text, "caption 8");
  EXPECT_EQ(manifest.row(19).image_path, "p19");
  EXPECT_EQ(manifest.where(8), folder_.path() + "/rows.jsonl:8");
  EXPECT_NE(manifest.where(7).find("row 8, which was removed"), std::string::npos);
  // A later checkpoint knows the row that is gone, and another one may follow.
  const RowsOfCheckpoint then = kept(manifest, {3});
  EXPECT_EQ(compared(then, rows).problem, "");
  EXPECT_EQ(compared(then, rows).taken_out, Numbers{7});
  rows.erase(rows.begin() + 3);
  EXPECT_EQ(compared(then, rows).taken_out, (Numbers{3, 7}));
}

TEST_F(RowDigests, ARowThatIsGoneGivesNoNegative) {
  std::vector<Row> rows = some_rows(6);
  rows.erase(rows.begin() + 2);
  Manifest manifest = manifest_of(folder_, rows);
  manifest.take_out({2});
  NegativeSettings settings;
  settings.fraction = 1.0;
  for (std::int64_t epoch = 0; epoch < 200; ++epoch) {
    for (const std::int64_t row : {0, 1, 3, 4, 5})
      EXPECT_NE(matching_sample(manifest, settings, epoch, row).caption_row, 2);
  }
}

}  // namespace
}  // namespace bascule
