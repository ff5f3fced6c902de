// SPDX-License-Identifier: Apache-2.0
#include "src/index/open_manifest.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/loader/label_count.h"
#include "tests/index/tar_writer.h"
#include "tests/loader/loader_run.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test_open_manifest {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<std::string> rows_of(const Manifest& manifest) {
  std::vector<std::string> rows;
  for (std::int64_t i = 0; i < manifest.rows(); ++i) {
    const ManifestRow row = manifest.row(i);
    rows.push_back(std::string(row.image_path) + "|" + std::string(row.text) + "|" + std::to_string(row.label) + "|" +
                   std::to_string(row.image_id) + "|" + manifest.where(i));
  }
  return rows;
}

// A folder of data and one for indexes, kept from the first row on.
struct KeptIndexes : testing::Test {
  TemporaryFolder data, kept;
  IndexCache cache{kept.path() + "/bascule", 1};
  ManifestColumns columns;

  std::string line(const std::string& caption) { return R"({"image": "a.jpg", "caption": ")" + caption + "\"}\n"; }
  std::vector<std::string> files() {
    std::vector<std::string> names;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(cache.folder, ignored)) names.push_back(entry.path().string());
    return names;
  }
  // Whether opening read an index rather than the source.
  bool is_from_index(const std::string& path) { return open_manifest(path, columns, cache).note.empty(); }
};

TEST_F(KeptIndexes, OfATestFileWithoutLabelsAreNotThoseOfTrainingData) {
  data.write("a.jpg", "123");
  const std::string path = data.write("rows.jsonl", line("one") + line("two"));
  columns.label = "label";
  columns.optional_labels = true;
  EXPECT_FALSE(is_from_index(path));
  EXPECT_TRUE(is_from_index(path));
  columns.optional_labels = false;
  EXPECT_THROW(is_from_index(path), Error);
}

TEST_F(KeptIndexes, AreTheManifestAgain) {
  data.write("a.jpg", "123");
  data.write("b.jpg", "12345");
  columns.label = "label";
  const std::string path = data.write("rows.jsonl", R"({"image": "a.jpg", "caption": "one", "label": 1})"
                                                    "\n\n"
                                                    R"({"image": "b.jpg", "caption": "", "label": 0})"
                                                    "\n"
                                                    R"({"image": "a.jpg", "caption": "thr\u00e9\u00e9", "label": 0})");
  const OpenedManifest read = open_manifest(path, columns, cache);
  EXPECT_NE(read.note.find("index of 3 rows is cached in " + cache.folder), std::string::npos) << read.note;
  const OpenedManifest again = open_manifest(path, columns, cache);
  EXPECT_EQ(again.note, "");
  const Manifest &a = read.manifest, &b = again.manifest;
  EXPECT_TRUE(b.is_whole());
  EXPECT_EQ(rows_of(a), rows_of(b));
  EXPECT_EQ(rows_of(b), rows_of(Manifest::load(path, columns)));
  EXPECT_EQ(a.digest(), b.digest());
  EXPECT_EQ(a.data_digest(), b.data_digest());
  EXPECT_EQ(b.data_digest(), Manifest::load(path, columns).data_digest());  // which asks the files
  EXPECT_EQ(a.texts_digest(), b.texts_digest());
  EXPECT_EQ(b.largest_picture_bytes(), 5u);
  EXPECT_EQ(a.longest_text_bytes(), b.longest_text_bytes());
  EXPECT_EQ(a.folder(), b.folder());
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(KeptIndexes, AreTextsWithoutPicturesAgain) {
  columns = {"", "text", "class", 1000};
  const std::string path = data.write("rows.csv", "text,class\none,999\ntwo,0\n");
  const OpenedManifest read = open_manifest(path, columns, cache);
  EXPECT_NE(read.note, "");
  OpenedManifest again = open_manifest(path, columns, cache);
  EXPECT_EQ(again.note, "");
  EXPECT_EQ(rows_of(again.manifest), rows_of(read.manifest));
  EXPECT_EQ(again.manifest.row(0).label, 999);
  EXPECT_FALSE(again.manifest.has_pictures());
  EXPECT_EQ(again.manifest.data_digest(), read.manifest.data_digest());
  EXPECT_TRUE(again.manifest.read_into_memory());
  columns.classes = 999;
  EXPECT_THROW((void)open_manifest(path, columns, cache), Error) << "the class is one too many now";
}

TEST_F(KeptIndexes, ArePairsOfCaptionsAgain) {
  columns = {"", "a", "", 2, "b"};
  const std::string path = data.write("rows.csv", "a,b\none,1\ntwo,\n");
  EXPECT_FALSE(is_from_index(path));
  OpenedManifest again = open_manifest(path, columns, cache);
  EXPECT_EQ(again.note, "");
  EXPECT_TRUE(again.manifest.read_into_memory());
  EXPECT_EQ(again.manifest.row(0).second_text, "1");
  EXPECT_EQ(again.manifest.row(1).text, "two");
  EXPECT_EQ(again.manifest.row(1).second_text, "");
  columns.further_texts = {"a"};
  EXPECT_FALSE(is_from_index(path)) << "the index of three texts is another one";
  again = open_manifest(path, columns, cache);
  EXPECT_EQ(again.note, "");
  EXPECT_TRUE(again.manifest.read_into_memory());
  EXPECT_EQ(again.manifest.text(1, 2), "two");
  columns.further_texts = {};
  columns.second_text = "";
  EXPECT_FALSE(is_from_index(path)) << "the index of pairs is another one";
  EXPECT_EQ(open_manifest(path, columns, cache).manifest.row(1).second_text, std::nullopt);
}

TEST_F(KeptIndexes, AreTheShardsAgain) {
  std::string tar;
  test::add_member(&tar, "0.jpg", "12345");
  test::add_member(&tar, "0.txt", "one");
  data.write("s-0.tar", test::with_end(tar));
  data.write("s-1.tar", test::with_end(tar));
  const std::string path = data.path() + "/s-{0..1}.tar";
  const OpenedManifest read = open_manifest(path, columns, cache);
  const OpenedManifest again = open_manifest(path, columns, cache);
  EXPECT_EQ(again.note, "");
  EXPECT_EQ(rows_of(read.manifest), rows_of(again.manifest));
  EXPECT_EQ(read.manifest.data_digest(), again.manifest.data_digest());
  EXPECT_EQ(again.manifest.place(1).shard, 1u);
  data.write("s-1.tar", test::with_end(tar + std::string()));  // the same bytes, written anew
  EXPECT_FALSE(is_from_index(path));
  fs::remove(data.path() + "/s-0.tar");
  EXPECT_THROW(open_manifest(path, columns, cache), Error);
}

TEST_F(KeptIndexes, AreMadeAnewWhenTheSourceOrTheColumnsChange) {
  data.write("a.jpg", "123");
  const std::string path = data.write("rows.jsonl", line("one"));
  EXPECT_FALSE(is_from_index(path));
  EXPECT_TRUE(is_from_index(path));
  struct stat before = {};
  ASSERT_EQ(::stat(path.c_str(), &before), 0);
  const auto set_time = [&](const ::timespec& time) {
    const ::timespec times[2] = {time, time};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  };
  ::timespec later = before.st_mtim;
  later.tv_nsec = (later.tv_nsec + 1) % 1'000'000'000;
  set_time(later);  // another time alone
  EXPECT_FALSE(is_from_index(path));
  set_time(before.st_mtim);
  EXPECT_FALSE(is_from_index(path));
  EXPECT_TRUE(is_from_index(path));
  data.write("rows.jsonl", line("longer"));  // another size alone
  set_time(before.st_mtim);
  EXPECT_FALSE(is_from_index(path));
  EXPECT_TRUE(is_from_index(path));
  data.write("other.jsonl", line("longer"));  // another inode alone
  fs::rename(data.path() + "/other.jsonl", path);
  set_time(before.st_mtim);
  EXPECT_FALSE(is_from_index(path));
  EXPECT_TRUE(is_from_index(path));
  ManifestColumns others = columns;
  others.text = "image";
  EXPECT_FALSE(open_manifest(path, others, cache).note.empty());
  EXPECT_EQ(open_manifest(path, others, cache).manifest.row(0).text, "a.jpg");
  EXPECT_EQ(open_manifest(path, columns, cache).manifest.row(0).text, "longer");
}

TEST_F(KeptIndexes, AreNoneForSmallManifestsOrWithoutAFolder) {
  data.write("a.jpg", "123");
  const std::string path = data.write("rows.jsonl", line("one"));
  cache.smallest_rows = 2;
  EXPECT_EQ(open_manifest(path, columns, cache).note, "");
  EXPECT_TRUE(files().empty());
  EXPECT_FALSE(fs::exists(cache.folder));
  const OpenedManifest opened = open_manifest(path, columns, IndexCache{"", 1});
  EXPECT_NE(opened.note.find("is not cached: neither XDG_CACHE_HOME nor HOME"), std::string::npos) << opened.note;
  EXPECT_EQ(opened.manifest.row(0).text, "one");
}

TEST_F(KeptIndexes, AreDoneWithoutWhereTheyCannotBeWritten) {
  data.write("a.jpg", "123");
  const std::string path = data.write("rows.jsonl", line("one"));
  cache.folder = kept.write("a-file", "") + "/below";
  const OpenedManifest opened = open_manifest(path, columns, cache);
  EXPECT_NE(opened.note.find("cannot be cached in"), std::string::npos) << opened.note;
  EXPECT_EQ(opened.manifest.row(0).text, "one");
}

TEST_F(KeptIndexes, TakeOverWhatAKilledProcessLeftButNotFromOneAtWork) {
  data.write("a.jpg", "123");
  const std::string path = data.write("rows.jsonl", line("one"));
  open_manifest(path, columns, cache);
  ASSERT_EQ(files().size(), 1u);
  const std::string index = files()[0];
  const std::string whole = read_file(index);
  fs::remove(index);
  const std::filesystem::path finished(index),
      beside = finished.parent_path() / (".tmp-bascule-" + finished.filename().string());
  std::ofstream(beside) << "half of an ind";
  const int at_work = ::open(beside.c_str(), O_RDWR);
  ASSERT_EQ(::flock(at_work, LOCK_EX), 0);
  EXPECT_NE(open_manifest(path, columns, cache).note.find("another process is writing it"), std::string::npos);
  EXPECT_FALSE(fs::exists(index));
  ::close(at_work);
  EXPECT_FALSE(is_from_index(path));
  EXPECT_EQ(files(), std::vector<std::string>{index});
  EXPECT_EQ(read_file(index), whole);
  EXPECT_TRUE(is_from_index(path));
}

TEST_F(KeptIndexes, AreMadeAnewWhereTheyAreCutOrTheirHeaderIsDamaged) {
  data.write("a.jpg", "123");
  const std::string path = data.write("rows.jsonl", line("one") + line("two"));
  open_manifest(path, columns, cache);
  const std::string index = files()[0], whole = read_file(index);
  const auto replace = [&](const std::string& bytes) {
    fs::remove(index);
    std::ofstream(index, std::ios::binary) << bytes;
  };
  for (std::size_t size = 0; size < whole.size(); size += 61) {
    replace(whole.substr(0, size));
    EXPECT_FALSE(is_from_index(path)) << size;
    EXPECT_EQ(read_file(index), whole) << size;
  }
  replace(whole + std::string(64, '\0'));
  EXPECT_FALSE(is_from_index(path));
  for (std::size_t at = 0; at < 328; at += 5) {  // the header
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    replace(damaged);
    EXPECT_FALSE(is_from_index(path)) << at;
  }
}

TEST_F(KeptIndexes, WithDamagedTablesAreFoundByReadingThemAndStayWithinBounds) {
  data.write("a.jpg", "123");
  const std::string path = data.write("rows.jsonl", line("one") + line("two") + line("three"));
  open_manifest(path, columns, cache);
  const std::string index = files()[0], whole = read_file(index);
  int mapped = 0;
  for (std::size_t at = 384; at < whole.size(); ++at) {  // behind the header and its padding
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x80);
    fs::remove(index);
    std::ofstream(index, std::ios::binary) << damaged;
    OpenedManifest opened = open_manifest(path, columns, cache);
    if (!opened.note.empty()) continue;
    ++mapped;
    rows_of(opened.manifest);
    EXPECT_FALSE(opened.manifest.is_whole()) << at;
    EXPECT_FALSE(opened.manifest.read_into_memory()) << at;
    EXPECT_FALSE(fs::exists(index));
    EXPECT_FALSE(is_from_index(path));
  }
  EXPECT_GT(mapped, 100);
}

TEST_F(KeptIndexes, ThatAreOwnedDoNotCareWhatBecomesOfTheFile) {
  data.write("a.jpg", "123");
  const std::string path = data.write("rows.jsonl", line("one") + line("two"));
  const std::vector<std::string> rows = rows_of(open_manifest(path, columns, cache).manifest);
  const std::string index = files()[0], whole = read_file(index);
  OpenedManifest overwritten = open_manifest(path, columns, cache);
  ASSERT_TRUE(overwritten.manifest.read_into_memory());
  const std::size_t planned = overwritten.manifest.resident_bytes();
  {
    std::fstream file(index, std::ios::binary | std::ios::in | std::ios::out);
    file << std::string(whole.size(), '\xff');
  }
  EXPECT_EQ(rows_of(overwritten.manifest), rows);
  EXPECT_TRUE(overwritten.manifest.is_whole());
  EXPECT_EQ(overwritten.manifest.resident_bytes(), planned);
  std::ofstream(index, std::ios::binary) << whole;
  OpenedManifest cut = open_manifest(path, columns, cache);
  OpenedManifest cut_before = open_manifest(path, columns, cache);
  ASSERT_EQ(cut.note, "");
  ASSERT_TRUE(cut.manifest.read_into_memory());
  fs::resize_file(index, 100);
  EXPECT_EQ(rows_of(cut.manifest), rows);  // mapped, this would be SIGBUS
  EXPECT_FALSE(cut_before.manifest.read_into_memory());
}

TEST_F(KeptIndexes, ThatArePipesAreMadeAnewWithoutWaiting) {
  data.write("a.jpg", "123");
  const std::string path = data.write("rows.jsonl", line("one"));
  open_manifest(path, columns, cache);
  const std::string index = files()[0];
  fs::remove(index);
  ASSERT_EQ(::mkfifo(index.c_str(), 0600), 0);
  EXPECT_NE(open_manifest(path, columns, cache).note.find("is cached in"), std::string::npos);
  EXPECT_TRUE(is_from_index(path));
}

TEST_F(KeptIndexes, ThatAreDamagedGiveNoLengthsToKeep) {
  data.write("a.jpg", "123");
  const std::string path = data.write("rows.jsonl", line("one two three") + line("two"));
  open_manifest(path, columns, cache);
  const std::string index = files()[0];
  std::string damaged = read_file(index);
  damaged.replace(damaged.find("one two three"), 13, "o;!?,.:;!?+-*");
  std::ofstream(index, std::ios::binary) << damaged;
  TextSettings text;
  text.tokenizer = &test::emoji_tokenizer();
  text.shape.vocabulary_size = text.tokenizer->vocabulary_size();
  text.shape.max_length = 128;
  OpenedManifest opened = open_manifest(path, columns, cache);
  ASSERT_EQ(opened.note, "");
  EXPECT_THROW(text_lengths(opened.manifest, text, cache), Error);
  EXPECT_FALSE(has_text_lengths(opened.manifest, text, cache));
  EXPECT_FALSE(opened.manifest.read_into_memory());
  opened = open_manifest(path, columns, cache);
  EXPECT_EQ(text_lengths(opened.manifest, text, cache).longest,
            text_lengths(Manifest::load(path, columns), text).longest);
  EXPECT_TRUE(has_text_lengths(opened.manifest, text, cache));
}

TEST_F(KeptIndexes, LieInTheUsersCacheFolder) {
  const char* const before = std::getenv("XDG_CACHE_HOME");
  const std::string saved = before != nullptr ? before : "";
  ::setenv("XDG_CACHE_HOME", "/some/cache", 1);
  EXPECT_EQ(user_index_cache().folder, "/some/cache/bascule");
  ::setenv("XDG_CACHE_HOME", "relative", 1);  // to be ignored, says the specification
  const char* const home = std::getenv("HOME");
  EXPECT_EQ(user_index_cache().folder, home != nullptr ? std::string(home) + "/.cache/bascule" : "");
  before != nullptr ? ::setenv("XDG_CACHE_HOME", saved.c_str(), 1) : ::unsetenv("XDG_CACHE_HOME");
}

TEST_F(KeptIndexes, KeepTheLengthOfTheLongestCaption) {
  data.write("a.jpg", "123");
  const std::string path = data.write("rows.jsonl", line("one") + line("a cat and a dog and a bird"));
  const Manifest manifest = Manifest::load(path, columns);
  TextSettings text;
  text.tokenizer = &test::emoji_tokenizer();
  text.shape.max_length = 24;
  text.shape.vocabulary_size = 3000;
  const std::int64_t longest = text_lengths(manifest, text).longest;
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(text_lengths(manifest, text, cache).longest, longest);
  ASSERT_EQ(files().size(), 1u);
  const std::string record = files()[0], whole = read_file(record);
  EXPECT_EQ(text_lengths(manifest, text, cache).longest, longest);
  text.shape.max_length = 4;
  EXPECT_EQ(text_lengths(manifest, text, cache).longest, 4);
  EXPECT_EQ(files().size(), 2u);
  text.shape.max_length = 24;
  for (std::size_t at = 0; at < whole.size(); ++at) {  // a damaged record is no record
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    std::ofstream(record, std::ios::binary) << damaged;
    EXPECT_EQ(text_lengths(manifest, text, cache).longest, longest);
    EXPECT_EQ(read_file(record), whole);
  }
  text.shape.vocabulary_size = 10;  // the row is named, kept or not
  EXPECT_THROW(text_lengths(manifest, text, cache), Error);
}

TEST(OpenManifest, KeepsNoIndexWithMissingPictures) {
  const TemporaryFolder data, kept;
  const IndexCache cache{kept.path() + "/bascule", 1};
  std::string lines;
  for (const char* const name : {"a.jpg", "b.jpg", "c.jpg"})
    lines += std::string(R"({"image": ")") + name + "\", \"caption\": \"x\"}\n";
  const std::string file = data.write("rows.jsonl", lines);
  const auto refusal = [&](MissingPictures missing) {
    return test::error_of([&] { (void)open_manifest(file, {}, cache, missing); });
  };
  EXPECT_EQ(refusal(MissingPictures::kAreSkipped),
            file + ":1: " + data.path() +
                "/a.jpg: No such file or directory, and no other picture was found either; check the paths; relative "
                "ones start from " +
                data.path());
  data.write("a.jpg", "1234");
  data.write("c.jpg", "12");
  EXPECT_EQ(refusal(MissingPictures::kAreRefused),
            file + ":2: " + data.path() +
                "/b.jpg: No such file or directory; restore it, remove the row, or set data.on_bad_sample = \"skip\"; "
                "if the training data of a checkpoint had it, only restoring it or another output_dir helps");
  const OpenedManifest opened = open_manifest(file, {}, cache, MissingPictures::kAreSkipped);
  EXPECT_EQ(opened.note, "1 of 3 pictures of " + file + " is missing, and its rows are skipped: " + data.path() +
                             "/b.jpg (" + file + ":2)");
  EXPECT_EQ(opened.manifest.missing_pictures(), 1);
  EXPECT_FALSE(opened.manifest.is_missing(0));
  EXPECT_TRUE(opened.manifest.is_missing(1));
  EXPECT_EQ(opened.manifest.picture_bytes(1), 0);
  EXPECT_EQ(opened.manifest.largest_picture_bytes(), 4u);
  EXPECT_FALSE(std::filesystem::exists(cache.folder));
  data.write("b.jpg", "1");
  const OpenedManifest again = open_manifest(file, {}, cache, MissingPictures::kAreSkipped);
  EXPECT_EQ(again.manifest.missing_pictures(), 0);
  EXPECT_NE(again.manifest.data_digest(), opened.manifest.data_digest());
}

}  // namespace
}  // namespace bascule::test_open_manifest
