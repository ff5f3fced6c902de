// SPDX-License-Identifier: Apache-2.0
// The first rows of a manifest alone: as if its file ended there.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/index/open_manifest.h"
#include "tests/index/tar_writer.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;

struct FirstRows : testing::Test {
  test::TemporaryFolder data, kept;
  IndexCache cache{kept.path() + "/bascule", 1};
  ManifestColumns columns;

  std::int64_t kept_files() const {
    std::int64_t count = 0;
    std::error_code ignored;
    for (fs::directory_iterator entry(cache.folder, ignored), end; !ignored && entry != end; ++entry) ++count;
    return count;
  }
  // Five rows of three pictures, of 3, 5 and 7 bytes.
  std::string write_pictures() {
    data.write("a.jpg", "123");
    data.write("b.jpg", "12345");
    data.write("c.jpg", "1234567");
    return data.write("rows.csv", "image,caption\na.jpg,1\nb.jpg,2\na.jpg,3\nc.jpg,4\nb.jpg,5\n");
  }
};

TEST_F(FirstRows, HaveTheirPicturesAlone) {
  const std::string path = write_pictures();
  fs::remove(data.path() + "/c.jpg");
  EXPECT_THROW((void)open_manifest(path, columns, {}), Error);
  const Manifest first = open_manifest(path, columns, {}, MissingPictures::kAreRefused, 3).manifest;
  EXPECT_EQ(first.rows(), 3);
  EXPECT_EQ(first.pictures(), 2);
  EXPECT_EQ(first.row(2).text, "3");
  EXPECT_EQ(first.row(2).image_path, "a.jpg");
  EXPECT_EQ(first.where(2), path + ":4");
  EXPECT_EQ(first.largest_picture_bytes(), 5u);
  EXPECT_EQ(first.missing_pictures(), 0);
}

TEST_F(FirstRows, AreAllWhereThereAreNoMore) {
  const std::string path = write_pictures();
  for (const std::int64_t most : {0, 5, 6, 1000}) {
    const Manifest all = open_manifest(path, columns, {}, MissingPictures::kAreRefused, most).manifest;
    EXPECT_EQ(all.rows(), 5) << most;
    EXPECT_EQ(all.pictures(), 3) << most;
    EXPECT_EQ(all.data_digest(), open_manifest(path, columns, {}).manifest.data_digest()) << most;
  }
}

TEST_F(FirstRows, AreThoseOfACachedIndexToo) {
  const std::string path = write_pictures();
  const auto first = [&] { return open_manifest(path, columns, cache, MissingPictures::kAreRefused, 2).manifest; };
  const std::uint64_t digest = first().data_digest();
  EXPECT_EQ(kept_files(), 0) << "an index of a part is not cached";
  EXPECT_NE(open_manifest(path, columns, cache).manifest.data_digest(), digest);
  EXPECT_EQ(kept_files(), 1);
  Manifest of_index = first();
  EXPECT_EQ(of_index.rows(), 2);
  EXPECT_EQ(of_index.pictures(), 2);
  EXPECT_EQ(of_index.data_digest(), digest) << "of the same pictures";
  EXPECT_TRUE(of_index.read_into_memory());
  EXPECT_EQ(of_index.rows(), 2);
  EXPECT_EQ(of_index.row(1).text, "2");
}

TEST_F(FirstRows, HaveTheirClassesAlone) {
  columns.text = "";
  columns.label = "label";
  columns.classes = 10;
  columns.named_classes = true;
  const std::string named = data.write("named.csv", "image,label\na.jpg,dog\nb.jpg,cat\nc.jpg,dog\nd.jpg,bird\n");
  Manifest names = Manifest::load(named, columns);
  names.keep_first(3);
  EXPECT_EQ(names.class_names(), (std::vector<std::string>{"dog", "cat"}));
  EXPECT_FALSE(names.has_one_label());
  Manifest one = Manifest::load(named, columns);
  one.keep_first(1);
  EXPECT_TRUE(one.has_one_label());
  const std::string numbered = data.write("numbered.csv", "image,label\na.jpg,0\nb.jpg,2\nc.jpg,1\nd.jpg,9\n");
  Manifest numbers = Manifest::load(numbered, columns);
  numbers.keep_first(3);
  EXPECT_EQ(numbers.largest_label(), 2);
  EXPECT_EQ(numbers.first_row_of_label(3), -1);
}

TEST_F(FirstRows, OfAFolderOfClassesAreItsFirstPictures) {
  columns.text = "";
  columns.label = "";
  columns.classes = 10;
  columns.named_classes = true;
  for (const char* const name : {"one", "two"}) fs::create_directory(data.path() + "/" + name);
  for (const char* const name : {"one/a.jpg", "one/b.jpg", "two/a.jpg"}) data.write(name, "123");
  const Manifest first = open_manifest(data.path(), columns, {}, MissingPictures::kAreRefused, 2).manifest;
  EXPECT_EQ(first.rows(), 2);
  EXPECT_EQ(first.class_names(), (std::vector<std::string>{"one"}));
}

TEST_F(FirstRows, OfShardsAreTheirFirstSamples) {
  std::string tar;
  for (const char* const key : {"000", "001", "002"}) {
    test::add_member(&tar, std::string(key) + ".jpg", "picture");
    test::add_member(&tar, std::string(key) + ".txt", std::string("caption ") + key);
  }
  tar.resize(tar.size() + 2 * test::kTarBlock);
  const std::string path = data.write("a.tar", tar);
  const Manifest first = open_manifest(path, columns, cache, MissingPictures::kAreRefused, 2).manifest;
  EXPECT_EQ(first.rows(), 2);
  EXPECT_EQ(first.pictures(), 2);
  EXPECT_EQ(first.row(1).text, "caption 001");
  EXPECT_EQ(first.where(1), path);
}

}  // namespace
}  // namespace bascule
