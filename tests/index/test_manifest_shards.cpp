// SPDX-License-Identifier: Apache-2.0
// Manifests whose pictures and captions are members of tar shards.
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/index/manifest.h"
#include "src/index/picture_folder.h"
#include "tests/index/tar_writer.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test_manifest_shards {
namespace {

using test::add_member;
using test::TemporaryFolder;
using test::with_end;

using Members = std::vector<std::pair<std::string, std::string>>;

std::string tar_of(const Members& members) {
  std::string tar;
  for (const auto& [name, contents] : members) add_member(&tar, name, contents);
  return tar;
}

ManifestColumns labelled(const std::string& label) {
  ManifestColumns columns;
  columns.label = label;
  return columns;
}

// Every row as "picture|caption|label|contents of the picture".
std::vector<std::string> rows_of(const Manifest& manifest) {
  const PictureFolder folder(manifest);
  std::vector<std::string> rows;
  for (std::int64_t i = 0; i < manifest.rows(); ++i) {
    std::vector<std::uint8_t> memory(folder.largest_file_bytes() + 1);
    std::size_t bytes = 0;
    EXPECT_EQ(folder.read(i, Span<std::uint8_t>(memory), &bytes), 0);
    const ManifestRow row = manifest.row(i);
    EXPECT_EQ(row.image_path.data()[row.image_path.size()], '\0');
    rows.push_back(std::string(row.image_path) + "|" + std::string(row.text) + "|" + std::to_string(row.label) + "|" +
                   std::string(memory.begin(), memory.begin() + static_cast<std::ptrdiff_t>(bytes)));
  }
  return rows;
}

TEST(ManifestShards, GiveSamplesByTheirKeys) {
  const TemporaryFolder folder;
  std::string first, second;
  add_member(&first, "README", "hidden and nameless members count for nothing");
  add_member(&first, "__meta__/x.txt", "nor does this");
  add_member(&first, "000.jpg", "picture 0");
  add_member(&first, "000.txt", "a caption\n");
  add_member(&first, "000.npy", "something else");
  add_member(&first, "d/._001.jpg", "of a Mac");
  add_member(&first, "d/001.json", R"({"caption": "in \u00e9", "id": 7})");
  add_member(&first, "d/001.JPEG", "picture 1");
  add_member(&second, "000.txt", "two\r\n");
  add_member(&second, "000.png", "picture 2");
  add_member(&second, "000.json", R"({"caption": "the text member wins"})");
  add_member(&second, "001.webp", "picture 3");
  add_member(&second, "001.txt", "three");
  folder.write("s-0.tar", with_end(first));
  folder.write("s-1.tar", with_end(second));
  const Manifest manifest = Manifest::load(folder.path() + "/s-{0..1}.tar", ManifestColumns());
  EXPECT_EQ(rows_of(manifest),
            (std::vector<std::string>{"000.jpg|a caption|-1|picture 0", "d/001.JPEG|in \xC3\xA9|-1|picture 1",
                                      "000.png|two|-1|picture 2", "001.webp|three|-1|picture 3"}));
  EXPECT_EQ(manifest.pictures(), 4);
  EXPECT_EQ(manifest.where(2), folder.path() + "/s-1.tar");
  EXPECT_EQ(manifest.picture_location(2), folder.path() + "/s-1.tar/000.png");
  EXPECT_TRUE(manifest.is_measured());
  EXPECT_EQ(manifest.largest_picture_bytes(), 9u);
  EXPECT_EQ(manifest.longest_text_bytes(), 9u);
}

// Neither do they stand between the members of one, nor are they a column by their whole name.
TEST(ManifestShards, MembersWithoutKeyOrEndingBelongToNoSample) {
  const TemporaryFolder folder;
  for (const char* name :
       {"README", "caption", "txt", ".txt", "d/.jpg", "a/b.d/jpg", "1.", "__meta__/0.txt", "____/0.txt", "__a.b__"}) {
    folder.write("s.tar", with_end(tar_of({{"0.jpg", "picture"}, {name, "not a caption"}, {"0.txt", "a caption"}})));
    const Manifest manifest = Manifest::load(folder.path() + "/s.tar", ManifestColumns());
    EXPECT_EQ(rows_of(manifest), std::vector<std::string>{"0.jpg|a caption|-1|picture"}) << name;
  }
}

// Only what begins and ends with two of them is the shard's own.
TEST(ManifestShards, NamesWithUnderscoresAreNamesOfSamples) {
  const TemporaryFolder folder;
  for (const std::string key : {"__0__", "___/0", "__ab/0", "ab__/0", "d/__a__/0"}) {
    folder.write("s.tar", with_end(tar_of({{key + ".jpg", "picture"}, {key + ".txt", "a caption"}})));
    const Manifest manifest = Manifest::load(folder.path() + "/s.tar", ManifestColumns());
    EXPECT_EQ(rows_of(manifest), std::vector<std::string>{key + ".jpg|a caption|-1|picture"});
  }
}

TEST(ManifestShards, TakeColumnsAsEndingsOrAsKeys) {
  const TemporaryFolder folder;
  std::string tar;
  add_member(&tar, "0.left.jpg", "left");
  add_member(&tar, "0.right.jpg", "right");
  add_member(&tar, "0.short.txt", "by ending");
  add_member(&tar, "0.json", R"({"long": "by key", "match": true, "short.txt": "no"})");
  add_member(&tar, "0.cls", "0\n");
  const std::string file = folder.write("s.tar", with_end(tar));
  ManifestColumns columns = labelled("cls");
  columns.image = "right.jpg";
  columns.text = "short.txt";
  EXPECT_EQ(rows_of(Manifest::load(file, columns)), (std::vector<std::string>{"0.right.jpg|by ending|0|right"}));
  columns = labelled("match");
  columns.image = "left.jpg";
  columns.text = "long";
  EXPECT_EQ(rows_of(Manifest::load(file, columns)), (std::vector<std::string>{"0.left.jpg|by key|1|left"}));
  columns.label = "other";
  EXPECT_EQ(rows_of(Manifest::load(file, columns)), (std::vector<std::string>{"0.left.jpg|by key|0|left"}));
}

TEST(ManifestShards, GivePairsOfCaptions) {
  const TemporaryFolder folder;
  std::string tar;
  add_member(&tar, "0.jpg", "0");
  add_member(&tar, "0.txt", "one\n");
  add_member(&tar, "0.reply", "by ending\n");
  add_member(&tar, "1.jpg", "1");
  add_member(&tar, "1.json", R"({"caption": "two", "reply": "by key"})");
  ManifestColumns columns;
  columns.second_text = "reply";
  const Manifest manifest = Manifest::load(folder.write("s.tar", with_end(tar)), columns);
  EXPECT_EQ(manifest.row(0).text, "one");
  EXPECT_EQ(manifest.row(0).second_text, "by ending");
  EXPECT_EQ(manifest.row(1).text, "two");
  EXPECT_EQ(manifest.row(1).second_text, "by key");
  columns.second_text = "answer";
  EXPECT_THROW(Manifest::load(folder.path() + "/s.tar", columns), Error);
}

TEST(ManifestShards, NameShardAndMemberOfWhatIsWrong) {
  const TemporaryFolder folder;
  struct Bad {
    Members members;
    std::string message;  // behind the shard's path
  };
  const std::vector<Bad> cases = {
      {{{"0.jpg", "p"}}, ": 0.jpg: no caption belongs to it: no 0.txt and no \"caption\" in 0.json"},
      {{{"0.jpg", "p"}, {"0.json", "{}"}}, ": 0.jpg: no caption belongs to it"},
      {{{"0.txt", "c"}}, ": 0.txt: no picture belongs to it: no 0.jpg"},
      {{{"0.gif", "p"}, {"0.txt", "c"}}, ": 0.txt: no picture belongs to it"},
      {{{"0.jpg", "p"}, {"1.jpg", "p"}, {"0.txt", "c"}, {"1.txt", "c"}}, ": 0.jpg: no caption belongs to it"},
      {{{"0.jpg", "p"}, {"0.jpeg", "p"}, {"0.txt", "c"}}, ": 0.jpeg: a second picture for this sample, besides 0.jpg"},
      {{{"0.jpg", "p"}, {"0.txt", "c"}, {"0.txt", "c"}}, ": 0.txt: occurs twice"},
      {{{"0.jpg", "p"}, {"0.txt", "c"}, {"1.jpg", "p"}, {"1.txt", "c"}, {"0.jpg", "p"}, {"0.txt", "c"}},
       ": 0.jpg: the sample 0 occurs twice"},
      {{{"0.jpg", "p"}, {"0.json", "{\"caption\": 7}"}}, ": 0.json: \"caption\" is 7, not a string"},
      {{{"0.jpg", "p"}, {"0.json", "{\"caption\": null}"}}, ": 0.json: \"caption\" is null, not a string"},
      {{{"0.jpg", "p"}, {"0.json", "[]"}}, ": 0.json: not a JSON object"},
      {{{"0.jpg", "p"}, {"0.json", "{\"caption\""}}, ": 0.json:1:"},
      {{{"0.jpg", "p"}, {"0.txt", "caf\xE9"}}, ": 0.jpg: byte 3 of the text is not UTF-8"},
  };
  for (const Bad& bad : cases) {
    const std::string file = folder.write("s.tar", with_end(tar_of(bad.members)));
    try {
      Manifest::load(file, ManifestColumns());
      ADD_FAILURE() << "taken: " << bad.message;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      EXPECT_EQ(std::string(error.what()).rfind(file + bad.message, 0), 0u) << error.what();
    }
  }
  const std::string none = folder.write("none.tar", with_end(""));
  EXPECT_THROW(Manifest::load(none, ManifestColumns()), Error);
  EXPECT_THROW(Manifest::load(folder.path() + "/a.tar.gz", ManifestColumns()), Error);
}

// The name of a sample ends at its first dot, as in WebDataset: these have nothing that is read.
TEST(ManifestShards, CountPicturesOfSamplesThatNothingIsReadOf) {
  const TemporaryFolder folder;
  std::string dots =
      tar_of({{"2 No. 1.jpg", "p"}, {"2 No. 1.txt", "c"}, {"3 v1.5.PNG", "p"}, {"3 v1.5.txt", "c"}, {"4.gif", "p"}});
  std::string tar =
      dots +
      tar_of(
          {{"0.jpg", "p"}, {"0.txt", "c"}, {"0.seg.png", "a mask"}, {"notes.old.txt", "n"}, {"._5.jpg", "of a Mac"}});
  const Manifest manifest = Manifest::load(folder.write("s.tar", with_end(tar)), ManifestColumns());
  EXPECT_EQ(manifest.rows(), 1);
  EXPECT_EQ(manifest.unread().count, 3);
  EXPECT_EQ(manifest.unread().why,
            "a sample's name ends at its first dot, and what follows it in \"2 No. 1.jpg\" is none of .jpg, .jpeg, "
            ".png or .webp");
  tar = tar_of({{"0.jpg", "p"}, {"0.txt", "c"}, {"5.a.jpg", "p"}, {"5.b.jpg", "p"}});  // two of one sample
  EXPECT_EQ(Manifest::load(folder.write("t.tar", with_end(tar)), ManifestColumns()).unread().count, 2);
  ManifestColumns left;
  left.image = "left.jpg";
  tar = tar_of({{"0.left.jpg", "p"}, {"0.txt", "c"}, {"1.right.jpg", "p"}});
  const Manifest chosen = Manifest::load(folder.write("c.tar", with_end(tar)), left);
  EXPECT_EQ(chosen.unread().count, 1);
  EXPECT_EQ(chosen.unread().why,
            "a sample's name ends at its first dot, and what follows it in \"1.right.jpg\" is not .left.jpg");
  try {
    Manifest::load(folder.write("s.tar", with_end(dots)), ManifestColumns());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what())
                  .rfind(folder.path() + "/s.tar: has no rows: 3 pictures not read: a sample's name ends", 0),
              0u)
        << error.what();
    EXPECT_EQ(error.what_to_do(), "rename the members of such samples so that their names have one dot");
  }
}

TEST(ManifestShards, NameALabelThatIsNone) {
  const TemporaryFolder folder;
  for (const auto& [json, message] :
       std::vector<std::pair<std::string, std::string>>{{R"({"caption": "c", "match": 2})", "label \"match\" is 2"},
                                                        {R"({"caption": "c"})", "no label belongs to it"}}) {
    std::string tar;
    add_member(&tar, "0.jpg", "p");
    add_member(&tar, "0.json", json);
    const std::string file = folder.write("s.tar", with_end(tar));
    EXPECT_TRUE(test::fails([&] { Manifest::load(file, labelled("match")); }, message));
  }
}

TEST(ManifestShards, MayLackLabelsWhereTheseAreOptional) {
  const TemporaryFolder folder;
  ManifestColumns columns = labelled("match");
  columns.optional_labels = true;
  for (const auto& [ending, contents] : std::vector<std::pair<std::string, std::string>>{
           {"txt", "c"}, {"cls", "-1\n"}, {"json", R"({"match": -1})"}, {"json", R"({"match": null})"}}) {
    std::string tar;
    add_member(&tar, "0.jpg", "p");
    if (ending != "txt") add_member(&tar, "0.txt", "c");
    add_member(&tar, "0." + ending, contents);
    const std::string file = folder.write("s.tar", with_end(tar));
    EXPECT_TRUE(Manifest::load(file, columns).lacks_labels()) << contents;
    EXPECT_EQ(rows_of(Manifest::load(file, columns)), std::vector<std::string>{"0.jpg|c|-1|p"});
    EXPECT_THROW(Manifest::load(file, labelled("match")), Error);
  }
  const std::string tar = tar_of({{"0.jpg", "p"}, {"0.txt", "c"}, {"0.cls", "1"}});
  EXPECT_FALSE(Manifest::load(folder.write("s.tar", with_end(tar)), columns).lacks_labels());
}

TEST(ManifestShards, DigestsChangeWithCaptionsAndWithPicturesSizes) {
  const TemporaryFolder folder;
  const auto digests = [&](const std::string& picture, const std::string& caption) {
    std::string tar;
    add_member(&tar, "0.jpg", picture);
    add_member(&tar, "0.txt", caption);
    return Manifest::load(folder.write("s.tar", with_end(tar)), ManifestColumns()).data_digest();
  };
  const std::uint64_t first = digests("pic", "c");
  EXPECT_EQ(first, digests("pic", "c"));
  EXPECT_NE(first, digests("pic", "d"));
  EXPECT_NE(first, digests("pict", "c"));
}

TEST(ManifestShards, TellOfAShardThatBecameShorter) {
  const TemporaryFolder folder;
  std::string tar;
  add_member(&tar, "0.txt", "c");
  add_member(&tar, "0.jpg", std::string(2000, 'p'));
  const Manifest manifest = Manifest::load(folder.write("s.tar", with_end(tar)), ManifestColumns());
  folder.write("s.tar", tar.substr(0, 2000));
  const PictureFolder pictures(manifest);
  std::vector<std::uint8_t> memory(4000);
  std::size_t bytes = 0;
  EXPECT_EQ(pictures.read(0, Span<std::uint8_t>(memory), &bytes), ENODATA);
  EXPECT_EQ(pictures.read(0, Span<std::uint8_t>(memory).first(2000), &bytes), EFBIG);
}

}  // namespace
}  // namespace bascule::test_manifest_shards
