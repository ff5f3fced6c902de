// SPDX-License-Identifier: Apache-2.0
#include "src/index/data_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/index/open_manifest.h"
#include "tests/index/tar_writer.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;
using test::TemporaryFolder;

struct SeveralFiles : testing::Test {
  TemporaryFolder data, kept;

  PathsSetting paths(Texts written) const {
    PathsSetting setting;
    setting.written = std::move(written);
    setting.start = data.path();
    return setting;
  }
  // Names of what is found, relative to the folder of the data.
  Texts found(Texts written) const {
    const DataFiles files = find_data_files(paths(std::move(written)));
    Texts names;
    for (const DataFile& file : files.manifests) names.push_back(relative(file.path));
    for (const std::string& shard : files.shards) names.push_back(relative(shard));
    return names;
  }
  std::string relative(const std::string& path) const {
    return fs::path(path).lexically_relative(data.path()).string();
  }
  // "exit-code where: problem" of a refusal, with "where" relative to the folder of the data.
  std::string refusal(Texts written) const {
    try {
      Manifest::load(paths(std::move(written)), {});
    } catch (const Error& error) {
      const fs::path where = fs::absolute(error.where()).lexically_normal();
      return std::to_string(exit_code(error.kind())) + " " + where.lexically_relative(data.path()).string() + ": " +
             error.problem();
    }
    return "";
  }
  static std::string line(const std::string& picture, const std::string& caption) {
    return R"({"image": ")" + picture + R"(", "caption": ")" + caption + "\"}\n";
  }
  std::string write_in(const std::string& folder, const std::string& name, const std::string& contents) const {
    fs::create_directories(data.path() + "/" + folder);
    return data.write(folder + "/" + name, contents);
  }
  Texts rows(const Manifest& manifest) const {
    Texts rows;
    for (std::int64_t i = 0; i < manifest.rows(); ++i) {
      const ManifestRow row = manifest.row(i);
      rows.push_back(relative(manifest.where(i)) + "|" + std::string(row.text) + "|" + std::to_string(row.image_id) +
                     "|" + relative(manifest.picture_location(row.image_id)));
    }
    return rows;
  }
};

TEST_F(SeveralFiles, OfAFolderWithMetadataAreItsMetadataWhateverFoldersItHas) {
  write_in("flat/pictures", "x.jpg", "");
  write_in("flat", "metadata.jsonl", "");
  EXPECT_EQ(found({"flat"}), Texts{"flat/metadata.jsonl"});
  EXPECT_FALSE(find_data_files(paths({"flat"})).manifests.front().is_class_folder);
  write_in("classes/cat", "x.jpg", "");
  EXPECT_TRUE(find_data_files(paths({"classes"})).manifests.front().is_class_folder);
}

TEST_F(SeveralFiles, OfAFolderMayBeListedInATable) {
  write_in("table/cat", "x.jpg", "");
  write_in("table", "metadata.csv", "file_name,caption\ncat/x.jpg,one\n");
  EXPECT_EQ(found({"table"}), Texts{"table/metadata.csv"});
  const Manifest manifest = Manifest::load(paths({"table"}), {});
  EXPECT_EQ(rows(manifest), Texts{"table/metadata.csv:2|one|0|table/cat/x.jpg"});
  write_in("table", "metadata.jsonl", "");
  EXPECT_EQ(refusal({"table"}), "3 table: has both metadata.jsonl and metadata.csv");
  write_in("columns/cat", "metadata.parquet", "PAR1");
  write_in("columns", "metadata.parquet", "PAR1");
  EXPECT_EQ(refusal({"columns"}), "3 columns/metadata.parquet: Parquet is not read");
  EXPECT_EQ(refusal({"columns/cat"}), "3 columns/cat/metadata.parquet: Parquet is not read");
  write_in("bare/cat", "x.jpg", "");
  EXPECT_EQ(refusal({"bare"}), "3 bare: is a folder with neither metadata.jsonl nor metadata.csv");
}

TEST_F(SeveralFiles, OfAnAddressAreNotDownloaded) {
  for (const std::string address :
       {"https://example.org/a.jsonl", "hf://datasets/a/*.parquet", "s3://b/s-{0..1}.tar"}) {
    const std::string problem = refusal({address});
    EXPECT_NE(problem.find(": is an address, and Bascule downloads nothing"), std::string::npos) << problem;
    EXPECT_EQ(problem[0], '3');
  }
  write_in("ab:", "x.csv", "file_name,caption\n");
  EXPECT_EQ(found({"ab:/x.csv"}), Texts{"ab:/x.csv"});
  EXPECT_EQ(found({"c:/x.csv"}), Texts{"c:/x.csv"});  // the reader says that it is missing
}

TEST_F(SeveralFiles, FoldersOfClassesAreOfPicturesAlone) {
  write_in("classes/cat", "x.jpg", "");
  write_in("classes/dog", "y.jpg", "");
  ManifestColumns columns;
  columns.named_classes = true;
  columns.label = "label";
  columns.text = "";
  EXPECT_EQ(Manifest::load(paths({"classes"}), columns).rows(), 2);
  for (const char* const image : {"", "image"}) {
    columns.image = image;
    columns.text = "text";
    try {
      Manifest::load(paths({"classes"}), columns);
      FAIL() << "rows without their texts";
    } catch (const Error& refused) {
      EXPECT_EQ(refused.kind(), ErrorKind::kData);
      EXPECT_EQ(refused.problem(), "is a folder with neither metadata.jsonl nor metadata.csv");
    }
  }
}

TEST_F(SeveralFiles, AFolderWithHiddenFoldersOnlyHasNoClasses) {
  write_in("hidden/.cache", "x.jpg", "");
  EXPECT_EQ(found({"hidden"}), Texts{"hidden/metadata.jsonl"});
}

TEST_F(SeveralFiles, AreFoundInTheOrderWritten) {
  for (const char* name : {"p-2.jsonl", "p-10.jsonl", "z.csv", "a.tsv", "s-0.tar", "s-1.tar", "t.tar"})
    data.write(name, "");
  fs::create_directory(data.path() + "/folder");
  EXPECT_EQ(found({"z.csv", "p-*.jsonl", "folder/", "./a.tsv"}),
            (Texts{"z.csv", "p-10.jsonl", "p-2.jsonl", "folder/metadata.jsonl", "a.tsv"}));
  EXPECT_EQ(found({"t.tar", "s-{0..1}.tar"}), (Texts{"t.tar", "s-0.tar", "s-1.tar"}));
  EXPECT_EQ(found({"s-?.tar,t.tar"}), (Texts{"s-0.tar", "s-1.tar", "t.tar"}));
  EXPECT_EQ(found({"missing.csv"}), Texts{"missing.csv"});  // the reader says so
  EXPECT_EQ(find_data_files(paths({"/abs/x/../y.csv"})).name, "/abs/y.csv");
}

TEST_F(SeveralFiles, KeepTheirPathsAsTheSettingHasThem) {
  for (const char* name :
       {"a/p-1.jsonl", "a/p-2.jsonl", "b/p-1.jsonl", "s-0.tar", "s-1.tar", "t.tar", "classes/cat/x.jpg"}) {
    fs::create_directories(fs::path(data.path() + "/" + name).parent_path());
    data.write(name, "");
  }
  const auto written = [&](const PathsSetting& setting) { return find_data_files(setting).written; };
  EXPECT_EQ(written(paths({"a/../b/p-1.jsonl", "./a/p-*.jsonl", "classes"})),
            (Texts{"a/../b/p-1.jsonl", "./a/p-1.jsonl", "./a/p-2.jsonl", "classes"}));
  EXPECT_EQ(written(paths({"?/p-1.jsonl", "b/"})), (Texts{"a/p-1.jsonl", "b/p-1.jsonl", "b//metadata.jsonl"}));
  EXPECT_EQ(written(paths({"s-{0..1}.tar,./t*.tar"})), (Texts{"s-0.tar", "s-1.tar", "./t.tar"}));
  EXPECT_EQ(written(paths({data.path() + "/a/p*"})),
            (Texts{data.path() + "/a/p-1.jsonl", data.path() + "/a/p-2.jsonl"}));
  PathsSetting up = paths({"../x/p-*.jsonl"});
  fs::create_directory_symlink("a", data.path() + "/x");
  up.start = data.path() + "/classes";
  EXPECT_EQ(written(up), (Texts{"../x/p-1.jsonl", "../x/p-2.jsonl"}));
}

TEST_F(SeveralFiles, StayInsideTheTreeOfSealedSettings) {
  for (const char* name : {"s-0.tar", "s-1.tar", "t.tar"}) data.write(name, "");
  PathsSetting setting = paths({"../s-{0..1}.tar,../t.tar"});
  setting.stays_inside = true;
  const DataFiles files = find_data_files(setting);
  EXPECT_EQ(files.written, (Texts{"s-0.tar", "s-1.tar", "t.tar"}));
  EXPECT_EQ(files.shards, (Texts{data.path() + "/s-0.tar", data.path() + "/s-1.tar", data.path() + "/t.tar"}));
}

TEST_F(SeveralFiles, MayHaveSignsOfAPatternInTheirNames) {
  data.write("p[1].jsonl", "");
  data.write("p1.jsonl", "");
  EXPECT_EQ(found({"p[1].jsonl"}), Texts{"p[1].jsonl"});
  EXPECT_EQ(found({"p[[]1].jsonl"}), Texts{"p[1].jsonl"});
  EXPECT_EQ(found({"p[12].jsonl"}), Texts{"p1.jsonl"});
}

TEST_F(SeveralFiles, TellWhichOfThemHoldsAFolder) {
  for (const char* folder : {"dd/cats", "meta", "texts/a"}) fs::create_directories(data.path() + "/" + folder);
  data.write("meta/metadata.jsonl", "");
  data.write("texts/rows.jsonl", "");
  fs::create_directory_symlink(data.path() + "/dd", data.path() + "/link");
  const auto holds = [&](const Texts& written, const std::string& folder) {
    return path_with_folder(paths(written), data.path() + "/" + folder);
  };
  EXPECT_EQ(holds({"texts/rows.jsonl", "dd"}, "dd/out"), "dd");
  EXPECT_EQ(holds({"dd/"}, "dd"), "dd/");
  EXPECT_EQ(holds({"./x/../dd"}, "x/../dd/cats/deep/out"), "./x/../dd");
  EXPECT_EQ(holds({"meta"}, "meta/out"), "meta");
  EXPECT_EQ(holds({"link"}, "dd/out"), "link");
  EXPECT_EQ(holds({"dd"}, "link/out"), "dd");
  EXPECT_EQ(holds({data.path() + "/dd"}, "dd/out"), data.path() + "/dd");
  for (const char* glob : {"dd/*", "d?/*", "link/[o]*", "*/*/*.jsonl", "dd/*/*/*.txt", "*", "dd/out/train*.json",
                           "dd/out/[c]onfig.json", "d*/out/r*", "dd/out/*/*", "dd/out/checkpoint-*/t*.json",
                           "dd/out/mer*.txt", "dd/out/checkpoint-*/pre*_config.json"})
    EXPECT_EQ(holds({glob}, "dd/out"), glob);
  // Files beside the folder, or of names that no run writes, are no matter; nor is a folder that only begins like it.
  for (const char* apart :
       {"texts/rows.jsonl", "dd/part-*.jsonl", "dd/*.jsonl", "dd/*/part-*.jsonl", "dd/s-*.tar", "*/*.tar", "meta",
        "missing", "texts", "t*", "dd/out.jsonl", "dd/out/data/*.jsonl", "dd/out/data/*", "dd/out/d?ta/*.json",
        "dd/out/part-*.jsonl", "dd/*/*.tar", "dd/out/*/part-*", "dd/out/*/*.jsonl"})
    EXPECT_EQ(holds({apart}, "dd/out"), "") << apart;
  EXPECT_EQ(holds({"dd"}, "dd-out"), "");
  EXPECT_EQ(holds({"dd/cats"}, "dd"), "");
}

TEST_F(SeveralFiles, AreRefusedByName) {
  data.write("a.jsonl", line("a.jpg", "one"));
  data.write("b.csv", "image,caption\na.jpg,two\n");
  data.write("s.tar", "");
  data.write("other.csv", "picture,caption\na.jpg,two\n");
  EXPECT_EQ(refusal({"a.jsonl", "c-*.jsonl"}), "3 c-*.jsonl: no file matches");
  EXPECT_EQ(refusal({"a.jsonl", "b.csv", "a*.jsonl"}), "2 a.jsonl: is listed twice for one split");
  EXPECT_EQ(refusal({"a.jsonl", "./x/../a.jsonl"}), "2 a.jsonl: is listed twice for one split");
  EXPECT_EQ(refusal({"a.jsonl", "s.tar"}), "2 s.tar: tar shards and other files are mixed in one split");
  EXPECT_EQ(refusal({"b.csv", "other.csv"}), "3 other.csv:1: no column \"image\" among \"picture\", \"caption\"");
  EXPECT_EQ(refusal({"a.jsonl", "missing.csv"}), "3 missing.csv: cannot be read: No such file or directory");
  EXPECT_EQ(refusal({"a.jsonl", "*.txt", "b.csv"}), "3 *.txt: no file matches");
  data.write("second.jsonl", line("a.jpg", "one") + "\n" + R"({"image": "a.jpg"})");
  EXPECT_EQ(refusal({"a.jsonl", "second.jsonl"}), "3 second.jsonl:3: no column \"caption\" among \"image\"");
  fs::create_directory(data.path() + "/folder");
  data.write("folder/metadata.jsonl", "");
  EXPECT_EQ(refusal({"folder", "folder/metadata.jsonl"}), "2 folder/metadata.jsonl: is listed twice for one split");
}

TEST_F(SeveralFiles, FollowEachOtherAndEachRowKnowsItsLine) {
  data.write("a.jsonl", line("x.jpg", "one") + "\n" + line("y.jpg", "two"));
  data.write("b.csv", "caption,image\nthree,x.jpg\nfour,z.jpg\n");
  data.write("empty.jsonl", "");
  data.write("c.json", "[" + line("x.jpg", "five") + "]");
  const Manifest manifest = Manifest::load(paths({"a.jsonl", "b.csv", "empty.jsonl", "c.json"}), {});
  EXPECT_EQ(rows(manifest), (Texts{"a.jsonl:1|one|0|x.jpg", "a.jsonl:3|two|1|y.jpg", "b.csv:2|three|0|x.jpg",
                                   "b.csv:3|four|2|z.jpg", "c.json:1|five|0|x.jpg"}));
  EXPECT_EQ(manifest.name(), "a.jsonl, b.csv, empty.jsonl and 1 more");
  EXPECT_NE(manifest.digest(), Manifest::load(paths({"a.jsonl", "b.csv", "c.json", "empty.jsonl"}), {}).digest());
}

TEST_F(SeveralFiles, NamePicturesRelativeToTheirOwnFolder) {
  write_in("a", "rows.jsonl", line("images/x.jpg", "one") + line("../images/x.jpg", "two"));
  write_in("b", "rows.jsonl",
           line("images/x.jpg", "three") + line("../images/x.jpg", "four") + line("/abs/x.jpg", "five") +
               line(".././/a/images/x.jpg", "six") + line("../../outside.jpg", "seven"));
  write_in("b/c", "metadata.jsonl", "{\"file_name\": \"../../images/x.jpg\", \"caption\": \"eight\"}\n");
  const Manifest manifest = Manifest::load(paths({"a/rows.jsonl", "b/rows.jsonl", "b/c"}), {});
  const std::string outside = "../outside.jpg";
  EXPECT_EQ(rows(manifest),
            (Texts{"a/rows.jsonl:1|one|0|a/images/x.jpg", "a/rows.jsonl:2|two|1|images/x.jpg",
                   "b/rows.jsonl:1|three|2|b/images/x.jpg", "b/rows.jsonl:2|four|1|images/x.jpg",
                   "b/rows.jsonl:3|five|3|" + relative("/abs/x.jpg"), "b/rows.jsonl:4|six|0|a/images/x.jpg",
                   "b/rows.jsonl:5|seven|4|" + outside, "b/c/metadata.jsonl:1|eight|1|images/x.jpg"}));
}

// A link to a folder is followed before "..", as the system does.
TEST_F(SeveralFiles, FindPicturesBesideAFolderThatIsLinkedTo) {
  write_in("here", "rows.jsonl", line("x.jpg", "one"));
  write_in("far/set", "rows.jsonl", line("../x.jpg", "two"));
  write_in("far", "x.jpg", "12345");
  write_in("here", "x.jpg", "123");
  fs::create_directory_symlink("far/set", data.path() + "/link");
  Manifest manifest = Manifest::load(paths({"here/rows.jsonl", "link/rows.jsonl"}), {});
  manifest.measure_pictures();
  EXPECT_EQ(manifest.picture_bytes(manifest.image_id(0)), 3);
  EXPECT_EQ(manifest.picture_bytes(manifest.image_id(1)), 5);
}

TEST_F(SeveralFiles, AreKeptInAnIndexUntilOneOfThemChanges) {
  write_in("a", "x.jpg", "123");
  write_in("b", "x.jpg", "1234");
  write_in("a", "rows.jsonl", line("x.jpg", "one") + line("x.jpg", "two"));
  write_in("b", "rows.csv", "image,caption\nx.jpg,three\n");
  const IndexCache cache{kept.path(), 1};
  const auto open = [&](const Texts& written) { return open_manifest(paths(written), {}, cache); };
  const Texts both = {"a/rows.jsonl", "b/rows.csv"};
  const OpenedManifest read = open(both);
  EXPECT_NE(read.note.find("index of 3 rows is cached"), std::string::npos) << read.note;
  OpenedManifest again = open(both);
  EXPECT_EQ(again.note, "");
  EXPECT_EQ(rows(again.manifest), rows(read.manifest));
  EXPECT_EQ(again.manifest.data_digest(), read.manifest.data_digest());
  EXPECT_TRUE(again.manifest.read_into_memory());
  EXPECT_EQ(rows(again.manifest), rows(read.manifest));
  EXPECT_EQ(rows(again.manifest)[2], "b/rows.csv:2|three|1|b/x.jpg");
  EXPECT_EQ(open({"?/rows.*"}).note, "");  // the same files
  EXPECT_NE(open({"b/rows.csv", "a/rows.jsonl"}).note, "");
  EXPECT_NE(open({"a/rows.jsonl"}).note, "");
  write_in("b", "rows.csv", "image,caption\nx.jpg,three\nx.jpg,four\n");
  EXPECT_NE(open(both).note, "");
  EXPECT_EQ(open(both).manifest.rows(), 4);
}

TEST_F(SeveralFiles, OfShardsAreOneListOfShards) {
  std::string tar;
  test::add_member(&tar, "0.jpg", "12345");
  test::add_member(&tar, "0.txt", "one");
  for (const char* name : {"s-0.tar", "s-1.tar", "t.tar"}) data.write(name, test::with_end(tar));
  const Manifest list = Manifest::load(paths({"s-{0..1}.tar", "t.tar"}), {});
  const Manifest one = Manifest::load(paths({"s-{0..1}.tar,t.tar"}), {});
  EXPECT_EQ(list.digest(), one.digest());
  EXPECT_EQ(list.shards(), one.shards());
  EXPECT_EQ(relative(list.where(2)), "t.tar");
}

}  // namespace
}  // namespace bascule
