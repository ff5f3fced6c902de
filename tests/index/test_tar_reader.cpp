// SPDX-License-Identifier: Apache-2.0
#include "src/index/tar_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/base/error.h"
#include "tests/index/tar_writer.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test_tar_reader {
namespace {

using test::add_long_name;
using test::add_member;
using test::add_pax;
using test::kTarBlock;
using test::pax_record;
using test::seal_header;
using test::TarEntry;
using test::TemporaryFolder;
using test::with_end;

// Every member as "name|contents".
std::vector<std::string> members_of(const std::string& path) {
  TarReader tar(path);
  TarMember member;
  std::vector<std::string> members;
  while (tar.next(&member)) {
    const std::string name = member.name;
    members.push_back(name + "|" + std::string(tar.contents(member)));
  }
  return members;
}

TEST(TarReader, ReadsWhatEveryWriterWrites) {
  const TemporaryFolder folder;
  const std::string far_name(150, 'n');
  TarEntry old, directory, link, in_folder, base_256, sparse_name;
  old.magic = "";
  old.type = '\0';
  directory.type = '5';
  link.type = '2';
  in_folder.prefix = "deep/er";
  base_256.size_text = std::string("\x80\0\0\0\0\0\0\0\0\0\0\x02", 12);
  std::string tar;
  add_member(&tar, "folder/", "", directory);
  add_member(&tar, "folder/a.txt", "one");
  add_member(&tar, "b.txt", "two", old);
  add_member(&tar, "old-folder/", "", old);
  add_member(&tar, "link", "", link);
  add_member(&tar, "c.txt", "three", in_folder);
  add_long_name(&tar, far_name);
  add_member(&tar, far_name.substr(0, 100), "four");
  add_pax(&tar, pax_record("comment", "of all"), 'g');
  add_pax(&tar, pax_record("mtime", "1.5") + pax_record("path", "\xC3\xA9/" + far_name));
  add_member(&tar, "short", "five");
  add_pax(&tar, pax_record("size", "3"));
  TarEntry no_size;
  no_size.size_text = "00000000000";
  const std::size_t at = add_member(&tar, "s.txt", "six", no_size);
  ASSERT_EQ(tar.size(), at + 2 * kTarBlock);
  add_member(&tar, "g.txt", "xy", base_256);
  add_member(&tar, "empty", "");
  add_member(&tar, "large", std::string(100'000, 'l'));
  const std::vector<std::string> expected = {"folder/a.txt|one",
                                             "b.txt|two",
                                             "deep/er/c.txt|three",
                                             far_name + "|four",
                                             "\xC3\xA9/" + far_name + "|five",
                                             "s.txt|six",
                                             "g.txt|xy",
                                             "empty|",
                                             "large|" + std::string(100'000, 'l')};
  EXPECT_EQ(members_of(folder.write("a.tar", with_end(tar))), expected);
  EXPECT_EQ(members_of(folder.write("b.tar", with_end(tar) + std::string(20 * kTarBlock, '\0'))), expected);
  EXPECT_EQ(members_of(folder.write("c.tar", tar + std::string(kTarBlock, '\0'))), expected);
}

struct Bad {
  std::string tar;
  std::string message;  // behind the file's path
};

std::string changed(std::string tar, std::size_t at, const std::string& bytes) {
  tar.replace(at, bytes.size(), bytes);
  seal_header(&tar, at / kTarBlock * kTarBlock);
  return tar;
}

TEST(TarReader, NamesShardAndMemberOfWhatIsWrong) {
  const TemporaryFolder folder;
  std::string good;
  add_member(&good, "a.jpg", std::string(1000, 'j'));
  const std::size_t second = add_member(&good, "a.txt", "caption");
  const std::string whole = with_end(good);
  std::string wrong_sum = whole;
  wrong_sum[second] = 'b';
  TarEntry sparse;
  sparse.type = 'S';
  std::string sparse_tar, sparse_pax, bad_pax, endless_pax;
  add_member(&sparse_tar, "s.jpg", "x", sparse);
  add_pax(&sparse_pax, pax_record("GNU.sparse.major", "1"));
  add_pax(&bad_pax, "12 path=x\n");
  add_pax(&endless_pax, "99999999999999999999 path=x\n");
  std::string huge_pax;
  add_pax(&huge_pax, std::string((1 << 20) + 1, 'x'));
  const std::vector<Bad> cases = {
      {"", ": the shard ends here without an end marker: it is truncated"},
      {good, ": a.txt: the shard ends here without an end marker: it is truncated"},
      {whole.substr(0, second + 100), ": a.jpg: the shard ends here without an end marker"},
      {whole.substr(0, second - 100), ": a.jpg: has 1000 bytes, of which the shard holds 924: it is truncated"},
      {whole.substr(0, second + kTarBlock + 3), ": a.txt: has 7 bytes, of which the shard holds 3"},
      {wrong_sum, ": a.jpg: the header at byte 1536, after this member, has a wrong checksum"},
      {"GIF89a" + whole, ": the header at byte 0 has a wrong checksum: the shard is damaged or not a tar file"},
      {changed(whole, 124, "77777777777"), ": a.jpg: has 8589934591 bytes"},
      {changed(whole, 124, "-0000000001"), ": a.jpg: its size is not a number"},
      {changed(whole, 124, std::string(12, '\xFF')), ": a.jpg: its size is not a number"},
      {changed(whole, 124, '\x80' + std::string(11, '\xFF')), ": a.jpg: its size is not a number"},
      {changed(whole, 124, std::string("\x80\0\0\0\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 12)),
       ": a.jpg: has 9223372036854775807"},
      {changed(whole, 0, std::string(100, '\0')), ": a member without a name"},
      {whole + good, ": a.txt: data follows the end marker"},
      {with_end(sparse_tar), ": s.jpg: is a sparse file"},
      {with_end(sparse_pax + good), ": the member after this one is a sparse file"},
      {with_end(good + bad_pax), ": a.txt: the extended header after this member is malformed"},
      {with_end(good + endless_pax), ": a.txt: the extended header after this member is malformed"},
      {with_end(good + huge_pax), ": a.txt: an extended header of 1048577 bytes"},
  };
  for (const Bad& bad : cases) {
    const std::string file = folder.write("a.tar", bad.tar);
    try {
      members_of(file);
      ADD_FAILURE() << "taken: " << bad.message;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      EXPECT_EQ(std::string(error.what()).rfind(file + bad.message, 0), 0u) << error.what();
    }
  }
  EXPECT_THROW(TarReader(folder.path()), Error);
  EXPECT_THROW(TarReader(folder.path() + "/absent.tar"), Error);
}

TEST(TarReader, RefusesTextThatIsTooLarge) {
  const TemporaryFolder folder;
  std::string tar;
  add_member(&tar, "a.txt", std::string((std::size_t{16} << 20) + 1, 'x'));
  EXPECT_THROW(members_of(folder.write("a.tar", with_end(tar))), Error);
}

}  // namespace
}  // namespace bascule::test_tar_reader
