// SPDX-License-Identifier: Apache-2.0
#include "src/index/manifest.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/index/picture_folder.h"
#include "tests/support/files.h"
#include "tests/support/reference_dir.h"
#include "tests/support/seeded.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using test::reference_dir;
using test::Seeded;
using test::TemporaryFolder;

ManifestColumns labelled() {
  ManifestColumns columns;
  columns.label = "label";
  return columns;
}

// Every row as "picture|caption|label|id", to compare at a glance.
std::vector<std::string> rows_of(const Manifest& manifest) {
  std::vector<std::string> rows;
  for (std::int64_t i = 0; i < manifest.rows(); ++i) {
    const ManifestRow row = manifest.row(i);
    rows.push_back(std::string(row.image_path) + "|" + std::string(row.text) + "|" + std::to_string(row.label) + "|" +
                   std::to_string(row.image_id));
  }
  return rows;
}

TEST(Manifest, ReadsTheReferenceSet) {
  const Manifest manifest = Manifest::load(reference_dir() + "/emoji-captions/train.jsonl", ManifestColumns());
  EXPECT_GT(manifest.rows(), 1000);
  EXPECT_EQ(manifest.row(0).image_path, "images/1f6ae.jpg");
  EXPECT_EQ(manifest.row(1).text, "melon | food fruit");
  EXPECT_EQ(manifest.row(1).label, -1);
  EXPECT_FALSE(manifest.has_labels());
  EXPECT_EQ(manifest.folder(), reference_dir() + "/emoji-captions");
  EXPECT_EQ(manifest.row(0).image_path.data()[manifest.row(0).image_path.size()], '\0');
}

TEST(Manifest, GivesTheSameRowsFromEveryKindOfFile) {
  const TemporaryFolder folder;
  const std::vector<std::string> expected = {"a.jpg|two, \"cats\"\nhere|1|0", "b/c.jpg|\xC3\xA9t\xC3\xA9|0|1",
                                             "a.jpg||0|0"};
  const std::string one = R"({"image": "a.jpg", "caption": "two, \"cats\"\nhere", "label": 1})";
  const std::string two =
      R"({"label": 0, "caption": "\u00e9t\u00e9", "image": "b/c.jpg", "more": [1, {"x": "\"],\\"}]})";
  const std::string three = R"({"image": "a.jpg", "caption": "", "label": false})";
  const std::string bom = "\xEF\xBB\xBF";
  const std::string csv =
      "label,image,caption\r\n1,a.jpg,\"two, \"\"cats\"\"\nhere\"\r\n\r\n0,b/c.jpg,\xC3\xA9t\xC3\xA9\n\"0\",a.jpg,";
  const std::vector<std::string> files = {
      folder.write("rows.jsonl", one + "\n\n" + two + "\r\n" + three),
      folder.write("bom.jsonl", bom + one + "\n" + two + "\n" + three + "\n"),
      folder.write("rows.json", "[" + one + "," + two + "," + three + "]"),
      folder.write("pretty.json", bom + " \n[\n  " + one + ",\n  " + two + "\n  ,\n" + three + "\n]\n\n"),
      folder.write("lines.json", one + "\n" + two + "\n" + three + "\n"),
      folder.write("rows.csv", csv),
      folder.write("bom.csv", bom + csv + "\n"),
  };
  for (const std::string& file : files) EXPECT_EQ(rows_of(Manifest::load(file, labelled())), expected) << file;
}

// What pandas writes is read back; a text that only begins with a quotation mark swallows no row.
TEST(Manifest, AFieldBetweenTabsEndsOnItsLineWhateverQuotationMarksItHas) {
  const TemporaryFolder folder;
  const std::string file = folder.write(
      "rows.tsv",
      "\"label\"\timage\tcaption\n1\ta.jpg\t\"To be continued\n0\ta.jpg\t\"He said \"\"hi\"\"\"\n1\ta.jpg\t\"hi\" he "
      "said\r\n0\ta.jpg\tend\"\n1\ta.jpg\t\"\n\"0\"\ta.jpg\t\"\"\n1\ta.jpg\t\"a \" b\"\n0\ta.jpg\t\"\"\"\n");
  EXPECT_EQ(rows_of(Manifest::load(file, labelled())),
            (std::vector<std::string>{"a.jpg|\"To be continued|1|0", "a.jpg|He said \"hi\"|0|0",
                                      "a.jpg|\"hi\" he said|1|0", "a.jpg|end\"|0|0", "a.jpg|\"|1|0", "a.jpg||0|0",
                                      "a.jpg|\"a \" b\"|1|0", "a.jpg|\"\"\"|0|0"}));
}

TEST(Manifest, ReadsLinesThatEndWithACarriageReturnAlone) {
  const TemporaryFolder folder;
  const std::string one = R"({"image": "a.jpg", "caption": "c", "label": 0})",
                    two = R"({"image": "b.jpg", "caption": "d", "label": 1})";
  for (const std::string& file :
       {folder.write("rows.csv", "image,caption,label\ra.jpg,\"c\",0\r\rb.jpg,d,1\r"),
        folder.write("rows.tsv", "image\tcaption\tlabel\ra.jpg\tc\t0\rb.jpg\td\t1"),
        folder.write("rows.jsonl", one + "\r" + two + "\r"), folder.write("rows.json", "[" + one + ",\r" + two + "]"),
        folder.write("mixed.csv", "image,caption,label\r\r\na.jpg,c,0\rb.jpg,d,1\n")})
    EXPECT_EQ(rows_of(Manifest::load(file, labelled())), (std::vector<std::string>{"a.jpg|c|0|0", "b.jpg|d|1|1"}))
        << file;
}

TEST(Manifest, GivesTheTextsBehindAPair) {
  const TemporaryFolder folder;
  ManifestColumns columns{"", "a", "", 2, "p", {"n1", "n2"}};
  const std::string one = R"({"n2": "far", "a": "one", "p": "an answer", "n1": "near"})",
                    two = R"({"a": "tw\u00f3", "p": "", "n1": "n", "n2": ""})";
  const std::vector<std::string> files = {
      folder.write("rows.jsonl", one + "\n" + two + "\n"), folder.write("rows.json", "[" + one + "," + two + "]"),
      folder.write("rows.csv", "p,n1,x,a,n2\nan answer,near,x,one,far\n,n,y,tw\u00f3,\n"),
      folder.write("rows.tsv", "n2\tp\tn1\ta\nfar\tan answer\tnear\tone\n\t\tn\ttw\u00f3\n")};
  for (const std::string& file : files) {
    const Manifest manifest = Manifest::load(file, columns);
    std::string texts;
    for (std::int64_t row = 0; row < manifest.rows(); ++row) {
      for (std::size_t i = 0; i < manifest.texts_of_a_row(); ++i) texts += std::string(manifest.text(row, i)) + "|";
    }
    EXPECT_EQ(texts, "one|an answer|near|far|tw\u00f3||n||") << file;
    EXPECT_EQ(manifest.row(0).second_text, "an answer");
  }
  const auto error_of = [&](const std::string& text) {
    return test::error_of([&] { Manifest::load(folder.write("bad.jsonl", one + "\n" + text + "\n"), columns); });
  };
  const std::string null = error_of(R"({"a": "x", "p": "y", "n1": "z", "n2": null})");
  EXPECT_NE(null.find("bad.jsonl:2: column \"n2\" is null, not a string"), std::string::npos) << null;
  const std::string missing = error_of(R"({"a": "x", "p": "y", "n1": "z"})");
  EXPECT_NE(missing.find("bad.jsonl:2: no column \"n2\" among"), std::string::npos) << missing;
  EXPECT_NE(missing.find("correct data.negative_columns"), std::string::npos) << missing;
  EXPECT_TRUE(test::fails([&] { Manifest::load(folder.write("bad.csv", "a,p,n1,n2\nx,y,\xff,z\n"), columns); },
                          "byte 0 of text 3 is not UTF-8"));
}

TEST(Manifest, GivesPairsOfCaptions) {
  const TemporaryFolder folder;
  const ManifestColumns columns{"", "a", "", 2, "b"};
  const std::vector<std::string> files = {
      folder.write("rows.jsonl", R"({"a": "one", "b": "an answer"})"
                                 "\n"
                                 R"({"b": "", "a": "tw\u00f3"})"
                                 "\n"),
      folder.write("rows.json", R"([{"a": "one", "b": "an answer"}, {"b": "", "a": "tw\u00f3"}])"),
      folder.write("rows.csv", "b,c,a\nan answer,x,one\n,y,tw\u00f3\n")};
  for (const std::string& file : files) {
    const Manifest manifest = Manifest::load(file, columns);
    EXPECT_TRUE(manifest.has_pairs());
    EXPECT_EQ(manifest.row(0).text, "one");
    EXPECT_EQ(manifest.row(0).second_text, "an answer");
    EXPECT_EQ(manifest.row(1).text, "tw\u00f3");
    EXPECT_EQ(manifest.row(1).second_text, "");
    EXPECT_EQ(manifest.longest_text_bytes(), 9u);
    EXPECT_NE(manifest.texts_digest(), Manifest::load(file, {"", "a", ""}).texts_digest());
    EXPECT_EQ(Manifest::load(file, {"", "a", ""}).row(0).second_text, std::nullopt);
    EXPECT_TRUE(test::fails(
        [&] {
          Manifest::load(file, {"", "a", "", 2, "none"});
        },
        "; add it, or correct data.text_pair_column"))
        << file;
  }
  const std::string bad = folder.write("bad.csv", "a,b\none,\xFF\n");
  EXPECT_TRUE(test::fails([&] { Manifest::load(bad, columns); }, ":2: byte 0 of the second text is not UTF-8"));
}

TEST(Manifest, KeepsACarriageReturnInsideQuotes) {
  const TemporaryFolder folder;
  const std::string file = folder.write("rows.csv", "image,caption\r\na.jpg,\"one\r\ntwo\rthree\"\r\n");
  EXPECT_EQ(Manifest::load(file, ManifestColumns()).row(0).text, "one\r\ntwo\rthree");
}

TEST(Manifest, ReadsAFolderByItsMetadata) {
  const TemporaryFolder folder;
  folder.write("metadata.jsonl", "{\"file_name\": \"x.jpg\", \"caption\": \"an x\"}\n");
  const Manifest manifest = Manifest::load(folder.path(), ManifestColumns());
  EXPECT_EQ(rows_of(manifest), (std::vector<std::string>{"x.jpg|an x|-1|0"}));
  EXPECT_EQ(manifest.folder(), folder.path());
}

TEST(Manifest, GivesEqualPicturesOneId) {
  const TemporaryFolder folder;
  Seeded random;
  std::vector<int> pictures;
  std::string text;
  for (int i = 0; i < 20000; ++i) {
    pictures.push_back(static_cast<int>(random.integer(0, 7000)));
    text += R"({"image": "p)" + std::to_string(pictures.back()) + R"(.jpg", "caption": "c"})" + "\n";
  }
  const Manifest manifest = Manifest::load(folder.write("rows.jsonl", text), ManifestColumns());
  std::int64_t seen = 0;
  for (std::int64_t i = 0; i < manifest.rows(); ++i) {
    const ManifestRow row = manifest.row(i);
    ASSERT_EQ(row.image_path, "p" + std::to_string(pictures[static_cast<std::size_t>(i)]) + ".jpg");
    ASSERT_EQ(manifest.image_path(row.image_id), row.image_path);
    ASSERT_LE(row.image_id, seen);
    seen += row.image_id == seen ? 1 : 0;
  }
  EXPECT_EQ(seen, manifest.pictures());
}

TEST(Manifest, DigestChangesWithTheBytesAndWithThePictures) {
  const TemporaryFolder folder;
  const std::string row = R"({"image": "a.jpg", "caption": "c"})";
  folder.write("a.jpg", "12345");
  const Manifest first = Manifest::load(folder.write("a.jsonl", row + "\n"), ManifestColumns());
  const Manifest same = Manifest::load(folder.write("b.jsonl", row + "\n"), ManifestColumns());
  const Manifest other = Manifest::load(folder.write("c.jsonl", row), ManifestColumns());
  EXPECT_EQ(first.digest(), same.digest());
  EXPECT_NE(first.digest(), other.digest());
  const std::uint64_t before = first.data_digest();
  EXPECT_EQ(before, same.data_digest());
  folder.write("a.jpg", "123456");
  EXPECT_NE(before, first.data_digest());
}

struct Bad {
  const char* name;
  std::string contents;
  std::string where;  // behind the file's path
  std::string problem;
};

TEST(Manifest, RefusesWhatIsWrongInOneLineWithItsPlace) {
  const std::string good = R"({"image": "a.jpg", "caption": "c", "label": 0})"
                           "\n";
  const std::vector<Bad> cases = {
      {"a.jsonl", good + R"({"image": "a.jpg", "label": 0})", ":2",
       "no column \"caption\" among \"image\", \"label\"; add it, or set data.caption_column"},
      {"a.jsonl", R"({"img": "a.jpg", "caption": "c"})", ":1",
       "no column \"image\" among \"caption\", \"img\"; add it, or set data.image_column"},
      {"a.jsonl", R"({"image": "a.jpg", "caption": "c"})", ":1",
       "no column \"label\" among \"caption\", \"image\"; add it, or correct data.label_column"},
      {"a.jsonl", good + "{}", ":2", "no column \"image\", nor any other; add it"},
      {"a.jsonl", R"({"1": 0, "2": 0, "3": 0, "4": 0, "5": 0, "6": 0, "7": 0, "8": 0, "9": 0})", ":1",
       "\"7\", \"8\", ...; add it"},
      {"a.jsonl", R"({"image": "a.jpg", "captions": ["c"], "label": 1})", ":1",
       "among \"captions\" (a list), \"image\""},
      {"a.jsonl", R"({"row": {"image": "a.jpg", "caption": "c", "label": 1}})", ":1",
       "the columns are inside the object \"row\"; write them as members of the row itself"},
      {"a.json", R"({"data": [)" + good + "]}", ":1", "the row does not end on its line; write one object a line"},
      {"a.json", R"({"data": [{"image": "a.jpg", "caption": "c", "label": 1}]})", ":1",
       "the rows are in a list, \"data\", inside an object; write that list alone"},
      {"a.jsonl", R"({"image": "a.jpg", "captions": [{"text": "c"}], "label": 1})", ":1",
       "no column \"caption\" among \"captions\" (a list), \"image\", \"label\""},
      {"a.jsonl", "{\n  \"image\": \"a.jpg\",\n", ":1", "the row does not end on its line"},
      {"a.jsonl", R"({"image": {"path": "a.jpg"}, "caption": "c", "label": 1})", ":1",
       "column \"image\" is an object, not a string; write a string"},
      {"a.jsonl", R"({"image": "https://host/a.jpg", "caption": "c", "label": 1})", ":1",
       "the picture is a URL, \"https://host/a.jpg\", and URLs are not read; download the pictures first"},
      {"a.csv", "image,caption,label\na.jpg,c,1\nS3://bucket/b.jpg,c,1\n", ":3", "the picture is a URL"},
      {"a.jsonl", R"({"image": "a.jpg", "caption": "c", "label": 2})", ":1", "label \"label\" is 2; use 0 or 1"},
      {"a.jsonl", R"({"image": "a.jpg", "caption": ["c"], "label": 1})", ":1",
       "column \"caption\" is a list, not a string"},
      {"a.jsonl", R"({"image": 7, "caption": "c", "label": 1})", ":1", "column \"image\" is 7, not a string"},
      {"a.jsonl", R"({"image": "a.jpg", "caption": null, "label": 1})", ":1",
       "column \"caption\" is null, not a string; write a string, or remove the row"},
      {"a.jsonl", R"({"image": "a.jpg", "caption": "c", "label": null})", ":1", "label \"label\" is null; use 0 or 1"},
      {"a.jsonl", R"({"image": "", "caption": "c", "label": 1})", ":1", "the picture's path is empty"},
      {"a.jsonl", R"({"image": "a\u0000b", "caption": "c", "label": 1})", ":1",
       "the picture's path contains a zero byte"},
      {"a.jsonl", good + "[1]\n", ":2", "not a JSON object"},
      {"a.jsonl", good + good + "  {\"image\": x}\n", ":3:13", "not JSON"},
      {"a.jsonl", good + "{\"image\": \"a.jpg\", \"caption\": \"\xFF\", \"label\": 0}\n", ":2", ""},
      {"a.jsonl", "\n \n", "", "no rows"},
      {"a.jsonl", "", "", "no rows"},
      {"a.json", "", "", "no rows"},
      {"a.json", "[]", "", "no rows"},
      {"a.json", "[\n" + good + ",\n" + good + ", {\"image\": x}]", ":5:13", "not JSON"},
      {"a.json", "[" + good + ",]", ":2", "an element is missing"},
      {"a.json", "[" + good + "] x", ":2", "text outside the array"},
      {"a.json", "[" + good, ":1", "the array is not closed"},
      {"a.json", "[" + good + " } ]", ":2:2", "not JSON"},
      {"a.csv", "", "", "no rows"},
      {"a.csv", "image,caption,label\n", "", "no rows"},
      {"a.csv", "image,text,label\na.jpg,c,0\n", ":1",
       "no column \"caption\" among \"image\", \"text\", \"label\"; add it"},
      {"a.csv", "image;caption;label\na.jpg;c;0\n", ":1",
       "the fields of the header \"image;caption;label\" are separated by \";\", not by \",\"; use commas in a .csv "
       "file"},
      {"a.csv", "image\tcaption\tlabel\na.jpg\tc\t0\n", ":1", "are separated by tabs, not by \",\""},
      {"a.tsv", "image,caption,label\na.jpg,c,0\n", ":1", "are separated by \",\", not by tabs"},
      {"a.csv", std::string("\xFF\xFEi\0m\0", 6), "", "is UTF-16, not UTF-8; convert it: iconv"},
      {"a.jsonl", std::string("{\0\"\0", 4), "", "is UTF-16"},
      {"a.json", std::string("\0[\0{", 4), "", "is UTF-16"},
      {"a.csv", std::string("\0image,caption,label\n", 21), ":1", "no column \"image\""},
      {"a.csv", "image,caption,label,image\na,c,0,b\n", ":1", "duplicate column \"image\""},
      {"a.csv", "image,caption,label\na.jpg,\"c\nd\",0\na.jpg,c,d,0\n", ":4", "4 fields, but the header has 3"},
      {"a.csv", "image,caption,label\na.jpg,c,d,0\n", ":2", "put quotes around a field that contains the separator"},
      {"a.tsv", "image\tcaption\tlabel\na.jpg\t\"c\nd\"\t0\n", ":2",
       "2 fields, but the header has 3; a field of a .tsv file has neither tabs nor line breaks: write .csv or .jsonl "
       "for texts that have them"},
      {"a.csv", "image,caption,label\na.jpg,c,yes\n", ":2", "label \"label\" is \"yes\""},
      {"a.csv", "image,caption,label\na.jpg,c,1\na.jpg,c,-1\n", ":3", "label \"label\" is \"-1\"; use 0 or 1"},
      {"a.csv", "image,caption,label\na.jpg,\"c,0\nmore\n", ":2", "a quote is not closed"},
      {"a.csv", "image,caption,label\na.jpg,\"c\"d,0\n", ":2", "text after the closing quote"},
      {"a.csv", "image,caption,label\na.jpg,caf\xE9,0\n", ":2", "byte 3 of the text is not UTF-8"},
      {"a.parquet", "PAR1", "", "is a file of Parquet; convert it: tools/export_dataset.py "},
      {"a.arrow", "ARROW1", "", "is a file of Arrow; convert it: tools/export_dataset.py "},
      {"a.xlsx", "PK", "", "unknown kind of manifest"},
  };
  const TemporaryFolder folder;
  for (const Bad& bad : cases) {
    const std::string file = folder.write(bad.name, bad.contents);
    try {
      Manifest::load(file, labelled());
      ADD_FAILURE() << "taken: " << bad.contents;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      EXPECT_EQ(std::string(error.what()).rfind(file + bad.where + ":", 0), 0u) << error.what();
      EXPECT_NE(std::string(error.what()).find(bad.problem), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(Manifest::load(folder.path() + "/absent.jsonl", labelled()), Error);
  EXPECT_THROW(Manifest::load(folder.path(), labelled()), Error);  // a folder without metadata.jsonl
}

// In a folder itself, in folders that would be classes, and as a clone of a data set of the hub has them.
TEST(Manifest, DataOfTheHubAreRefusedWithWhatConvertsThem) {
  const TemporaryFolder folder;
  const auto problem = [&](const std::string& data, bool named_classes) {
    ManifestColumns columns;
    columns.named_classes = named_classes;
    std::string error;
    try {
      Manifest::load(data, columns);
    } catch (const Error& refused) {
      error = refused.what();
    }
    return error;
  };
  for (const char* const inner : {"/single", "/split/train", "/tables", "/clone/data/train"})
    std::filesystem::create_directories(folder.path() + inner);
  folder.write("single/dataset_info.json", "{}");
  folder.write("split/dataset_dict.json", "{}");
  folder.write("split/train/state.json", "{}");
  folder.write("tables/train-00000-of-00001.parquet", "PAR1");
  folder.write("clone/data/train/0.parquet", "PAR1");
  folder.write("clone/README.md", "# cats");
  for (const bool named_classes : {false, true}) {
    for (const std::string name : {"single", "split", "tables", "clone"}) {
      const std::string data = folder.path() + "/" + name;
      const bool is_saved = name[0] == 's';
      EXPECT_EQ(problem(data, named_classes),
                data + (is_saved ? ": is a data set that save_to_disk wrote" : ": holds Parquet files") +
                    "; convert it: tools/export_dataset.py " + data + " --output FOLDER");
    }
    EXPECT_NE(
        problem("org/cats", named_classes)
            .find("org/cats: there is no such file or folder; data are local files, and Bascule downloads nothing: "
                  "tools/export_dataset.py NAME --output FOLDER"),
        std::string::npos);
  }
}

TEST(Manifest, TooLowALimitOnOpenFilesIsNotBlamedOnShardsWhereThereAreNone) {
  const TemporaryFolder folder;
  const Manifest manifest =
      Manifest::load(folder.write("rows.jsonl", R"({"image": "a.jpg", "caption": "c"})"), ManifestColumns());
  ::rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(STDERR_FILENO);
  ::close(next);
  ::rlimit low = before;
  low.rlim_cur = static_cast<::rlim_t>(next);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  std::string said;
  try {
    const PictureFolder pictures(manifest);
  } catch (const Error& error) {
    said = error.what();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(said, folder.path() + ": the limit of " + std::to_string(next) +
                      " open files is too low: the run needs up to 64 for settings, logs, checkpoints and libraries; "
                      "raise the limit of open files (ulimit -n)");
}

// Any bytes give rows or an Error, never anything else.
TEST(Manifest, APipeIsRefusedAndNotWaitedFor) {
  const TemporaryFolder folder;
  for (const char* const name : {"/rows.jsonl", "/rows.json", "/rows.csv", "/rows.tar"}) {
    const std::string path = folder.path() + name;
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    try {
      Manifest::load(path, ManifestColumns());
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      EXPECT_EQ(error.what(), path + ": is not a file");
    }
  }
}

TEST(Manifest, TakesMutatedFilesWithoutHarm) {
  const TemporaryFolder folder;
  Seeded random;
  const std::string json =
      R"([{"image": "a.jpg", "caption": "c\u00e9", "label": 0}, {"image": "b.jpg", "caption": "d", "label": 1}])";
  const std::string csv = "image,caption,label\r\na.jpg,\"c, \"\"d\"\"\ne\",0\r\nb.jpg,c,1\r\n";
  const std::string lines = json.substr(1, 50) + "\n" + json.substr(54, 46) + "\n";
  const std::vector<std::pair<const char*, std::string>> seeds = {{"m.json", json}, {"m.csv", csv}, {"m.jsonl", lines}};
  for (int round = 0; round < 1500; ++round) {
    const auto& [name, contents] = seeds[static_cast<std::size_t>(round) % seeds.size()];
    std::string mutated = contents;
    for (std::int64_t changes = random.integer(1, 4); changes > 0; --changes) {
      const std::size_t place =
          static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(mutated.size()) - 1));
      const int kind = static_cast<int>(random.integer(0, 3));
      if (kind == 0) mutated[place] = static_cast<char>(random.integer(0, 255));
      if (kind == 1) mutated.insert(place, 1, "\"\\{}[],\r\n"[random.integer(0, 8)]);
      if (kind == 2 && mutated.size() > 1) mutated.erase(place, 1);
      if (kind == 3) mutated = mutated.substr(0, place + 1);
    }
    try {
      const Manifest manifest = Manifest::load(folder.write(name, mutated), labelled());
      EXPECT_EQ(rows_of(manifest).size(), static_cast<std::size_t>(manifest.rows()));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
    }
  }
}

}  // namespace
}  // namespace bascule
