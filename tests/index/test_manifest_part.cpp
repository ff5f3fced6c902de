// SPDX-License-Identifier: Apache-2.0
#include "src/index/open_manifest.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/index/picture_folder.h"
#include "tests/index/tar_writer.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test_manifest_part {
namespace {

using test::TemporaryFolder;
using Rows = std::vector<std::int64_t>;
using Texts = std::vector<std::string>;

Manifest opened(const std::string& path, const ManifestColumns& columns = {},
                MissingPictures missing = MissingPictures::kAreRefused) {
  return std::move(open_manifest(PathsSetting(path), columns, {}, missing).manifest);
}

// All that a row has.
Texts rows_of(const Manifest& manifest) {
  Texts rows;
  for (std::int64_t i = 0; i < manifest.rows(); ++i) {
    const ManifestRow row = manifest.row(i);
    rows.push_back(std::string(row.image_path) + "|" + std::string(row.text) + "|" +
                   std::string(row.second_text.value_or("")) + "|" + std::to_string(row.label) + "|" +
                   std::to_string(manifest.picture_bytes(row.image_id)) + "|" + manifest.where(i));
  }
  return rows;
}

// Twenty pictures of two captions each, in a file of their own or not.
struct Pictures : testing::Test {
  Pictures() {
    for (int i = 0; i < 20; ++i) {
      const std::string name = "p" + std::to_string(i) + ".jpg";
      folder.write(name, std::string(static_cast<std::size_t>(i + 1), static_cast<char>('a' + i)));
      for (const char* caption : {"one", "two"})
        lines.push_back("{\"image\": \"" + name + "\", \"caption\": \"" + caption + std::to_string(i) + "\"}\n");
    }
  }
  std::string manifest(const std::vector<std::string>& some, const std::string& name = "a.jsonl") {
    std::string text;
    for (const std::string& line : some) text += line;
    return folder.write(name, text);
  }

  TemporaryFolder folder;
  std::vector<std::string> lines;
};

TEST_F(Pictures, RowsOfOnePictureStayTogether) {
  folder.write("copy.jpg", "b");  // not p1, which has two bytes
  folder.write("same.jpg", std::string(3, 'c'));
  lines.push_back("{\"image\": \"same.jpg\", \"caption\": \"the bytes of p2 under another name\"}\n");
  const Manifest whole = opened(manifest(lines));
  const std::vector<bool> held_out = held_out_rows(whole, 0.4, {});
  ASSERT_EQ(held_out.size(), 41U);
  for (std::size_t row = 0; row < 40; row += 2) EXPECT_EQ(held_out[row], held_out[row + 1]) << row;
  EXPECT_EQ(held_out[40], held_out[4]);
  EXPECT_NE(std::set<bool>(held_out.begin(), held_out.end()).size(), 1U);
}

TEST_F(Pictures, RowsThatAreAddedMoveNoOthers) {
  const std::vector<bool> before = held_out_rows(opened(manifest({lines.begin() + 6, lines.begin() + 30})), 0.3, {});
  const std::vector<bool> all = held_out_rows(opened(manifest(lines, "b.jsonl")), 0.3, {});
  EXPECT_EQ(std::vector<bool>(all.begin() + 6, all.begin() + 30), before);
  // A larger share holds out all that a smaller one did.
  const std::vector<bool> more = held_out_rows(opened(manifest(lines, "b.jsonl")), 0.6, {});
  for (std::size_t row = 0; row < all.size(); ++row) EXPECT_TRUE(more[row] || !all[row]);
}

TEST_F(Pictures, APictureThatIsMissingIsToldByItsPath) {
  std::filesystem::remove(folder.path() + "/p3.jpg");
  const Manifest whole = opened(manifest(lines), {}, MissingPictures::kAreSkipped);
  const std::vector<bool> held_out = held_out_rows(whole, 0.5, {});
  EXPECT_EQ(held_out[6], held_out[7]);
  const Manifest part = part_of(whole, {0, 6, 7, 9});
  EXPECT_FALSE(part.is_missing(0));
  EXPECT_TRUE(part.is_missing(1));
  EXPECT_TRUE(part.is_missing(2));
  EXPECT_FALSE(part.is_missing(3));
  EXPECT_EQ(part.missing_pictures(), 1);
}

// In a cache for manifests of as many rows, and never where a picture is missing.
TEST_F(Pictures, AreReadOnceWhereTheirIndexIsCached) {
  const Manifest whole = opened(manifest(lines));
  const IndexCache cache{folder.path() + "/cache", 40};
  const std::vector<std::uint64_t> digests = picture_digests(whole, {});
  ASSERT_EQ(digests.size(), 20U);
  EXPECT_EQ(digests[3], picture_digest("dddd", 4));
  EXPECT_EQ(picture_digests(whole, cache), digests);
  folder.write("p3.jpg", "zzzz");
  EXPECT_EQ(picture_digests(whole, cache), digests) << "read again";
  EXPECT_NE(picture_digests(whole, {cache.folder, 41}), digests);
  // After exchanging pictures the manifest is touched.
  const std::string path = folder.path() + "/a.jsonl";
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
  EXPECT_EQ(picture_digests(opened(path), cache)[3], picture_digest("zzzz", 4));
  const std::filesystem::directory_iterator records(cache.folder);
  EXPECT_EQ(std::distance(begin(records), end(records)), 1) << "a record of before stays";
  // A damaged record is made anew.
  for (const auto& file : std::filesystem::directory_iterator(cache.folder))
    folder.write("cache/" + file.path().filename().string(), std::string(22 * 8, 'x'));
  EXPECT_EQ(picture_digests(whole, cache)[3], picture_digest("zzzz", 4));
  std::filesystem::remove(folder.path() + "/p4.jpg");
  std::filesystem::remove_all(cache.folder);
  picture_digests(opened(folder.path() + "/a.jsonl", {}, MissingPictures::kAreSkipped), cache);
  EXPECT_FALSE(std::filesystem::exists(cache.folder));
}

TEST(ManifestPart, APictureThatIsExchangedInAFolderOfClassesIsReadAgain) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() + "/set/cat");
  for (const char* name : {"set/cat/1.jpg", "set/cat/2.jpg"}) folder.write(name, name);
  ManifestColumns columns;
  columns.text = "";
  columns.label = "";
  columns.classes = 10;
  columns.named_classes = true;
  const IndexCache cache{folder.path() + "/cache", 2};
  picture_digests(opened(folder.path() + "/set", columns), cache);
  EXPECT_TRUE(std::filesystem::exists(cache.folder));
  const std::filesystem::path picture = folder.path() + "/set/cat/2.jpg";
  const auto before = std::filesystem::last_write_time(picture);
  folder.write("set/cat/2.jpg", "other bytes!!");
  std::filesystem::last_write_time(picture, before + std::chrono::seconds(1));
  EXPECT_EQ(picture_digests(opened(folder.path() + "/set", columns), cache)[1], picture_digest("other bytes!!", 13));
}

TEST_F(Pictures, APartHasItsRowsWithTheirPicturesAndPlaces) {
  const Manifest whole = opened(manifest(lines));
  const Rows some = {1, 4, 5, 30, 39};
  const Manifest part = part_of(whole, some);
  const Texts all = rows_of(whole), own = rows_of(part);
  ASSERT_EQ(own.size(), some.size());
  for (std::size_t i = 0; i < some.size(); ++i) EXPECT_EQ(own[i], all[static_cast<std::size_t>(some[i])]);
  EXPECT_EQ(part.pictures(), 4);
  EXPECT_EQ(part.image_id(1), part.image_id(2));
  EXPECT_EQ(part.largest_picture_bytes(), 20U);
  EXPECT_EQ(part.longest_text_bytes(), 5U);
  EXPECT_NE(part.digest(), whole.digest());
  EXPECT_NE(part.digest(), part_of(whole, {1, 4, 5, 30}).digest());
  EXPECT_EQ(part.texts_digest(), part_of(whole, some).texts_digest());
}

TEST_F(Pictures, APartOfSeveralFilesKnowsTheFileOfEachRow) {
  const std::string a = manifest({lines.begin(), lines.begin() + 4}),
                    b = manifest({lines.begin() + 2, lines.end()}, "b.jsonl");
  PathsSetting both;
  both.written = {a, b};
  const Manifest whole = std::move(open_manifest(both, {}, {}).manifest);
  const Manifest part = part_of(whole, {2, 3, 5, 12});
  EXPECT_EQ(part.where(1), a + ":4");
  EXPECT_EQ(part.where(2), b + ":2");
  EXPECT_EQ(part.where(3), b + ":9");
}

TEST(ManifestPart, TextsAreToldByTheFirstOfThem) {
  const TemporaryFolder folder;
  std::string text = "premise,hypothesis\n";
  for (int i = 0; i < 30; ++i) text += "p" + std::to_string(i) + ",yes\np" + std::to_string(i) + ",no\n";
  ManifestColumns columns;
  columns.image = "";
  columns.text = "premise";
  columns.second_text = "hypothesis";
  const Manifest whole = opened(folder.write("a.csv", text), columns);
  const std::vector<bool> held_out = held_out_rows(whole, 0.5, {});
  for (std::size_t row = 0; row < 60; row += 2) EXPECT_EQ(held_out[row], held_out[row + 1]) << row;
  EXPECT_NE(std::set<bool>(held_out.begin(), held_out.end()).size(), 1U);
  const Manifest part = part_of(whole, {3, 8});
  EXPECT_EQ(rows_of(part), (Texts{rows_of(whole)[3], rows_of(whole)[8]}));
  EXPECT_TRUE(part.has_pairs());
  EXPECT_EQ(part.longest_text_bytes(), 3U);
}

TEST(ManifestPart, HasAllTextsOfARow) {
  const TemporaryFolder folder;
  ManifestColumns columns{"", "a", "", 2, "b", {"c"}};
  const Manifest whole = opened(folder.write("a.csv", "a,b,c\n1,2,3\n4,5,6\n7,8,9\n"), columns);
  const Manifest part = part_of(whole, {1, 2});
  EXPECT_EQ(part.rows(), 2);
  EXPECT_EQ(part.texts_of_a_row(), 3U);
  EXPECT_EQ(std::string(part.text(0, 2)) + std::string(part.text(1, 1)), "68");
}

TEST(ManifestPart, ClassesAreThoseOfTheWhole) {
  const TemporaryFolder folder;
  for (const char* name : {"cat/1.jpg", "cat/2.jpg", "dog/1.jpg", "dog/2.jpg", "owl/1.jpg"}) {
    std::filesystem::create_directories(std::filesystem::path(folder.path() + "/set/" + name).parent_path());
    folder.write(std::string("set/") + name, name);
  }
  ManifestColumns columns;
  columns.text = "";
  columns.label = "";
  columns.classes = 10;
  columns.named_classes = true;
  const Manifest whole = opened(folder.path() + "/set", columns);
  const Manifest part = part_of(whole, {2, 4});
  EXPECT_EQ(part.class_names(), whole.class_names());
  EXPECT_EQ(part.row(0).label, whole.row(2).label);
  EXPECT_EQ(part.row(1).label, whole.row(4).label);
}

TEST(ManifestPart, OfShardsReadsItsPictures) {
  const TemporaryFolder folder;
  std::string tar;
  for (int i = 0; i < 30; ++i) {
    test::add_member(&tar, std::to_string(i) + ".jpg", std::string(static_cast<std::size_t>(i % 10 + 1), 'x'));
    test::add_member(&tar, std::to_string(i) + ".txt", "caption " + std::to_string(i));
  }
  tar.resize(tar.size() + 2 * test::kTarBlock);
  const Manifest whole = opened(folder.write("a.tar", tar));
  const std::vector<bool> held_out = held_out_rows(whole, 0.5, {});
  for (std::size_t row = 0; row < 10; ++row) {
    EXPECT_EQ(held_out[row], held_out[row + 10]) << row;  // the same bytes
    EXPECT_EQ(held_out[row], held_out[row + 20]) << row;
  }
  EXPECT_NE(std::set<bool>(held_out.begin(), held_out.end()).size(), 1U);
  const Manifest part = part_of(whole, {3, 29});
  EXPECT_EQ(part.pictures(), 2);
  EXPECT_EQ(part.place(1).offset, whole.place(29).offset);
  EXPECT_EQ(rows_of(part), (Texts{rows_of(whole)[3], rows_of(whole)[29]}));
}

TEST(ManifestPart, AShareIsOfAllDigests) {
  EXPECT_FALSE(is_held_out(0, 0.0));
  EXPECT_TRUE(is_held_out(0, 1e-300));
  EXPECT_FALSE(is_held_out(~std::uint64_t{0}, 0.9999999999));
  EXPECT_TRUE(is_held_out(std::uint64_t{1} << 62, 0.26));
  EXPECT_FALSE(is_held_out(std::uint64_t{1} << 62, 0.25));
}

}  // namespace
}  // namespace bascule::test_manifest_part
