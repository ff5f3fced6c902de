// SPDX-License-Identifier: Apache-2.0
// Labels that are names: in manifests, in shards, and as the folders of a folder.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/index/manifest.h"
#include "src/index/open_manifest.h"
#include "tests/index/tar_writer.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using test::TemporaryFolder;
using Texts = std::vector<std::string>;

ManifestColumns named(std::int64_t classes = 10) {
  ManifestColumns columns;
  columns.text = "";
  columns.label = "label";
  columns.classes = classes;
  columns.named_classes = true;
  return columns;
}

// "picture|class" of each row.
Texts classes_of(const Manifest& manifest) {
  Texts rows;
  for (std::int64_t i = 0; i < manifest.rows(); ++i) {
    const ManifestRow row = manifest.row(i);
    rows.push_back(std::string(row.image_path) + "|" + manifest.class_names()[static_cast<std::size_t>(row.label)]);
  }
  return rows;
}

std::string refusal_of(const std::string& path, const ManifestColumns& columns) {
  return test::error_of([&] { Manifest::load(path, columns); });
}

TEST(ClassNames, AreReadFromEveryKindOfManifest) {
  const TemporaryFolder folder;
  const Texts expected = {"a.jpg|dog", "b.jpg|a cat", "c.jpg|dog", "d.jpg|\xC3\xA9t\xC3\xA9"};
  for (const auto& [name, contents] :
       {std::pair<std::string, std::string>{"a.jsonl",
                                            "{\"image\": \"a.jpg\", \"label\": \"dog\"}\n"
                                            "{\"image\": \"b.jpg\", \"label\": \"a cat\"}\n"
                                            "{\"image\": \"c.jpg\", \"label\": \"dog\"}\n"
                                            "{\"image\": \"d.jpg\", \"label\": \"\\u00e9t\\u00e9\"}\n"},
        {"a.csv", "image,label\na.jpg,dog\nb.jpg,a cat\nc.jpg,\"dog\"\nd.jpg,\xC3\xA9t\xC3\xA9\n"}}) {
    const Manifest manifest = Manifest::load(folder.write(name, contents), named());
    EXPECT_EQ(manifest.class_names(), (Texts{"dog", "a cat", "\xC3\xA9t\xC3\xA9"})) << name;
    EXPECT_EQ(classes_of(manifest), expected) << name;
    EXPECT_EQ(manifest.first_row_of_class(1), 1);
  }
  Manifest numbered = Manifest::load(folder.path() + "/a.csv", named());
  numbered.set_classes({7, 3, 500});
  EXPECT_EQ(numbered.row(0).label, 7);
  EXPECT_EQ(numbered.row(1).label, 3);
  EXPECT_EQ(numbered.row(3).label, 500);
}

TEST(ClassNames, AreReadFromShards) {
  const TemporaryFolder folder;
  std::string tar;
  for (const auto& [name, contents] :
       {std::pair{"0.jpg", "x"}, {"0.cls", "dog\n"}, {"1.jpg", "y"}, {"1.json", R"({"label": "cat"})"}})
    test::add_member(&tar, name, contents);
  const Manifest manifest = Manifest::load(folder.write("s.tar", test::with_end(tar)), named());
  EXPECT_EQ(classes_of(manifest), (Texts{"0.jpg|dog", "1.jpg|cat"}));
}

TEST(ClassNames, OfSeveralFoldersCountAllPicturesThatAreNotRead) {
  const TemporaryFolder data;
  PathsSetting folders;
  for (const char* const name : {"/one", "/other"}) {
    folders.written.push_back(data.path() + name);
    std::filesystem::create_directories(folders.written.back() + "/cat");
    for (const char* const file : {"/cat/a.jpg", "/cat/b.gif"}) data.write(name + std::string(file), "x");
  }
  EXPECT_EQ(Manifest::load(folders, named()).unread().count, 2);
}

TEST(ClassNames, AreTheFoldersOfAFolder) {
  const TemporaryFolder folder;
  for (const char* const name : {"dog/deep/er", "cat", ".hidden", "cat/.thumbnails"})
    std::filesystem::create_directories(folder.path() + "/" + name);
  for (const char* const name : {"dog/z.jpg", "dog/y.webp", "dog/deep/er/a.PNG", "cat/b.jpeg", "cat/notes.txt",
                                 ".hidden/c.jpg", "cat/.thumbnails/b.jpg", "readme.txt"})
    folder.write(name, "x");
  Manifest manifest = Manifest::load(folder.path(), named());
  EXPECT_EQ(classes_of(manifest),
            (Texts{"cat/b.jpeg|cat", "dog/deep/er/a.PNG|dog", "dog/y.webp|dog", "dog/z.jpg|dog"}));
  EXPECT_EQ(manifest.where(1), folder.path() + "/dog/deep/er/a.PNG");
  manifest.measure_pictures();
  EXPECT_EQ(manifest.picture_bytes(2), 1);
  const std::uint64_t before = manifest.digest();
  folder.write("cat/c.jpg", "x");
  EXPECT_NE(Manifest::load(folder.path(), named()).digest(), before);
  // Files deep in a folder may change unseen, so no index is kept.
  const TemporaryFolder kept;
  const OpenedManifest opened = open_manifest(folder.path(), named(), {kept.path() + "/bascule", 1});
  EXPECT_NE(opened.note.find("are listed at each start"), std::string::npos) << opened.note;
  std::filesystem::create_directory(folder.path() + "/bird");
  EXPECT_EQ(refusal_of(folder.path(), named()),
            folder.path() + "/bird: has no pictures; add JPEG, PNG or WebP files, or remove the folder");
  folder.write("bird/a.gif", "x");
  folder.write("bird/photo", "RIFF\4\1\1\1WEBP");
  folder.write("bird/notes", "x");
  EXPECT_EQ(refusal_of(folder.path(), named()),
            folder.path() +
                "/bird: has no pictures, but 2 whose names do not end in .jpg, .jpeg, .png or .webp; add JPEG, PNG or "
                "WebP files, or remove the folder");
  std::filesystem::remove_all(folder.path() + "/bird");
  // Deeper than where the layout of Hugging Face is read.
  for (const char* const name : {"/dog/metadata.csv", "/dog/deep/metadata.jsonl", "/cat/metadata.parquet"}) {
    folder.write(name + 1, "x");
    EXPECT_EQ(refusal_of(folder.path(), named()),
              folder.path() + name +
                  ": lists pictures, but is not read: its folder is one of classes; name the folders "
                  "that have such a file as data, or remove it");
    std::filesystem::remove(folder.path() + name);
  }
  const TemporaryFolder empty;
  EXPECT_EQ(refusal_of(empty.path(), named()),
            empty.path() +
                ": is a folder with neither metadata.jsonl, metadata.csv nor a folder for each class; add one of them");
}

TEST(ClassNames, MayBeLinksToFoldersElsewhere) {
  const TemporaryFolder folder, elsewhere;
  elsewhere.write("a.jpg", "x");
  std::filesystem::create_directory_symlink(elsewhere.path(), folder.path() + "/cat");
  EXPECT_EQ(classes_of(Manifest::load(folder.path(), named())), Texts{"cat/a.jpg|cat"});
}

TEST(ClassNames, ComeBackFromACachedIndex) {
  const TemporaryFolder data, kept;
  const IndexCache cache{kept.path() + "/bascule", 1};
  data.write("a.jpg", "x");
  const std::string file =
      data.write("a.jsonl", "{\"image\": \"a.jpg\", \"label\": \"dog\"}\n{\"image\": \"a.jpg\", \"label\": \"cat\"}\n");
  const Texts expected = classes_of(open_manifest(file, named(), cache).manifest);
  OpenedManifest again = open_manifest(file, named(), cache);
  EXPECT_EQ(again.note, "");
  EXPECT_EQ(classes_of(again.manifest), expected);
  ASSERT_TRUE(again.manifest.read_into_memory());
  EXPECT_EQ(classes_of(again.manifest), expected);
}

TEST(ClassNames, OrNumbersButNotBoth) {
  const TemporaryFolder folder;
  const auto row = [](const std::string& label) { return "{\"image\": \"a.jpg\", \"label\": " + label + "}\n"; };
  const auto refused = [&](const std::string& contents, const std::string& where, const std::string& problem) {
    const std::string file = folder.write("a.jsonl", contents), line = refusal_of(file, named());
    EXPECT_EQ(line.rfind(file + where, 0), 0u) << line;
    EXPECT_NE(line.find(problem), std::string::npos) << line;
  };
  refused(row("\"dog\"") + row("3"), ":2", "label 3 is a number, but \"dog\" of ");
  refused(row("3") + row("\"dog\""), ":2", "label \"dog\" is a name, but 3 of ");
  refused(row("3") + row("10"), ":2", "use a class number from 0 to 9, or names in every row");
  for (const char* const value : {"\"\"", "null", "1.5", "-1", "[]"}) refused(row(value), ":1", "label \"label\" is");
  EXPECT_NE(refusal_of(folder.write("b.csv", "image,label\na.jpg,dog\nb.jpg,7\n"), named()).find("label 7 is a number"),
            std::string::npos);
  // No name reads as a number, so the line is that of the wrong number, not of the right one behind it.
  for (const char* const value : {"-1", "1.0", "+1", ".5", "1.", "007", ""}) {
    const std::string file = folder.write("e.csv", "image,label\na.jpg," + std::string(value) + "\nb.jpg,0\n");
    EXPECT_EQ(refusal_of(file, named()),
              file + ":2: label \"label\" is \"" + value + "\"; use a class number from 0 to 9, or names in every row" +
                  (std::string(value) == "007" ? "; a class number has no leading zeros" : ""));
  }
  EXPECT_EQ(classes_of(Manifest::load(folder.write("f.csv", "image,label\na.jpg,1.0.0\nb.jpg,-\n"), named())),
            (Texts{"a.jpg|1.0.0", "b.jpg|-"}));
  ManifestColumns numbers = named();
  numbers.named_classes = false;
  EXPECT_NE(refusal_of(folder.write("c.jsonl", row("\"dog\"")), numbers).find("use a class number"), std::string::npos);
  const Manifest wide = Manifest::load(folder.write("d.jsonl", row("65535") + row("256") + row("0")), named(65536));
  EXPECT_EQ(wide.row(0).label, 65535);
  EXPECT_EQ(wide.row(1).label, 256);
  EXPECT_EQ(wide.largest_label(), 65535);
}

TEST(ClassNames, AreAtMostAsManyAsTheIndexCanNumber) {
  const TemporaryFolder folder;
  std::string contents = "image,label\n";
  for (int i = 0; i < 70000; ++i) contents += "a.jpg,c" + std::to_string(i) + "\n";
  const std::string file = folder.write("a.csv", contents);
  EXPECT_EQ(refusal_of(file, named()), file + ":65538: more than 65536 classes; check that the column holds classes");
}

}  // namespace
}  // namespace bascule
