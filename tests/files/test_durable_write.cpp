// SPDX-License-Identifier: Apache-2.0
#include "src/files/durable_write.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using test::TemporaryFolder;
using Names = std::vector<std::string>;

TEST(PathBuffer, JoinsAndCutsBack) {
  PathBuffer path("/runs");
  path.append("/").append("checkpoint-").append(std::int64_t{1200});
  EXPECT_EQ(path.text(), "/runs/checkpoint-1200");
  path.cut(5);
  EXPECT_STREQ(path.c_str(), "/runs");
}

TEST(PathBuffer, ATooLongPathIsRefusedByTheSystemInsteadOfNamingAnotherFile) {
  PathBuffer path("/tmp/");
  const std::size_t length = path.length();
  path.append(std::string(5000, 'a'));
  path.cut(length);
  const Status status = write_synced(path.append("b").c_str(), "x");
  EXPECT_EQ(status.detail[0], ENAMETOOLONG);
}

TEST(DurableWrite, ReplacesAFileAndLeavesNothingElse) {
  const TemporaryFolder folder;
  folder.write("a.json", "old");
  ASSERT_TRUE(write_durably(folder.path().c_str(), "a.json", "new").ok());
  EXPECT_EQ(test::read_file(folder.path() + "/a.json"), "new");
  EXPECT_EQ(folder_entries(folder.path()), Names{"a.json"});
}

TEST(DurableWrite, AFileThatCannotBeWrittenLeavesTheOldOne) {
  const TemporaryFolder folder;
  folder.write("a.json", "old");
  std::filesystem::create_directory(folder.path() + "/.tmp-bascule-a.json");  // the temporary name is taken by a folder
  const Status status = write_durably(folder.path().c_str(), "a.json", "new");
  EXPECT_EQ(status.code, StatusCode::kDiskFailed);
  EXPECT_EQ(status.detail[0], EISDIR);
  EXPECT_EQ(test::read_file(folder.path() + "/a.json"), "old");
}

TEST(DurableWrite, PublishingAFolderExchangesItWithAnOldOneOfTheName) {
  const TemporaryFolder folder;
  for (const char* name : {"checkpoint-5", ".tmp-bascule-checkpoint-5"}) {
    std::filesystem::create_directories(folder.path() + "/" + name + "/deep");
    folder.write(std::string(name) + "/deep/file", name);
  }
  ASSERT_TRUE(publish_folder(folder.path().c_str(), "checkpoint-5").ok());
  EXPECT_EQ(test::read_file(folder.path() + "/checkpoint-5/deep/file"), ".tmp-bascule-checkpoint-5");
  EXPECT_EQ(folder_entries(folder.path()), Names{"checkpoint-5"});
}

TEST(DurableWrite, PublishingWhatWasNotWrittenFails) {
  const TemporaryFolder folder;
  EXPECT_EQ(publish_folder(folder.path().c_str(), "checkpoint-5").detail[0], ENOENT);
  EXPECT_EQ(publish_file(folder.path().c_str(), "a.json").detail[0], ENOENT);
}

TEST(DurableWrite, RemovesTreesOfManyFilesWithoutFollowingLinks) {
  const TemporaryFolder folder;
  folder.write("kept", "kept");
  std::filesystem::create_directories(folder.path() + "/tree/a/b");
  std::filesystem::create_directory_symlink(folder.path(), folder.path() + "/tree/link");
  for (int i = 0; i < 500; ++i) folder.write("tree/a/b/a rather long name of a file " + std::to_string(i), "");
  ASSERT_TRUE(remove_tree((folder.path() + "/tree").c_str()).ok());
  EXPECT_EQ(folder_entries(folder.path()), Names{"kept"});
  EXPECT_TRUE(remove_tree((folder.path() + "/absent").c_str()).ok());
}

// Of a file that may not be removed the system says so; the file is then tried as a folder, which says less.
TEST(DurableWrite, WhatMayNotBeRemovedIsSaidToBeForbidden) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() + "/tree");
  const std::string file = folder.write("tree/a", "kept");
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  int flags = FS_IMMUTABLE_FL;
  if (::ioctl(descriptor, FS_IOC_SETFLAGS, &flags) != 0) GTEST_SKIP() << "no file can be made immutable here";
  const Status refused = remove_tree((folder.path() + "/tree").c_str());
  flags = 0;
  EXPECT_EQ(::ioctl(descriptor, FS_IOC_SETFLAGS, &flags), 0);
  ::close(descriptor);
  EXPECT_EQ(refused.code, StatusCode::kDiskFailed);
  EXPECT_EQ(refused.detail[0], EPERM);
}

// As the orphan of a killed launcher does, which clears its session folder away while the next run does so too.
TEST(DurableWrite, ATreeThatSomebodyElseRemovesAndFillsMeanwhileIsRemoved) {
  const TemporaryFolder folder;
  const std::string tree = folder.path() + "/tree", inner = tree + "/a/b";
  std::atomic<bool> ends{false};
  std::thread other([&] {
    while (!ends) {
      std::error_code ignored;
      for (const char* name : {"/c", "/d", "/e/f"}) std::filesystem::create_directories(inner + name, ignored);
      for (const char* name : {"/c", "/d", "/e/f", "/e", ""}) std::filesystem::remove(inner + name, ignored);
    }
  });
  int met = 0, failures = 0, last = 0;
  for (const auto begin = std::chrono::steady_clock::now();
       std::chrono::steady_clock::now() - begin < std::chrono::seconds(2); ++met) {
    while (!std::filesystem::exists(inner)) std::this_thread::yield();
    const Status status = remove_tree(tree.c_str());
    if (status.ok()) continue;
    last = static_cast<int>(status.detail[0]);
    ++failures;
  }
  ends = true;
  other.join();
  EXPECT_EQ(failures, 0) << "of " << met << ": " << std::strerror(last);
}

TEST(DurableWrite, ABottomlessTreeIsRefusedInsteadOfExhaustingTheStack) {
  const TemporaryFolder folder;
  std::string path = folder.path() + "/tree";
  for (int i = 0; i < 40; ++i) path += "/d";
  std::filesystem::create_directories(path);
  EXPECT_EQ(remove_tree((folder.path() + "/tree").c_str()).detail[0], ELOOP);
}

TEST(DurableWrite, AFolderLeavesItsNameBeforeItsFilesGo) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() + "/checkpoint-5");
  std::filesystem::create_directories(folder.path() +
                                      "/.tmp-bascule-checkpoint-5.deleting");  // left by a killed program
  folder.write("checkpoint-5/file", "x");
  folder.write(".tmp-bascule-checkpoint-5.deleting/file", "x");
  ASSERT_TRUE(remove_folder(folder.path().c_str(), "checkpoint-5").ok());
  EXPECT_EQ(folder_entries(folder.path()), Names{});
}

TEST(DurableWrite, LeftoversOfAKilledProgramGoAndNothingElseDoes) {
  const TemporaryFolder folder;
  for (const char* name : {"checkpoint-10", ".tmp-bascule-checkpoint-20", ".tmp-bascule-checkpoint-5.deleting",
                           "checkpoint-10.tmp", "runs", "my.deleting"}) {
    std::filesystem::create_directory(folder.path() + "/" + name);
  }
  folder.write(".tmp-bascule-checkpoint-20/model.safetensors", "half");
  folder.write(".tmp-bascule-config.json", "half");
  folder.write(".tmp-config.json", "somebody's");
  folder.write("config.json", "whole");
  remove_leftovers(folder.path());
  EXPECT_EQ(folder_entries(folder.path()),
            (Names{".tmp-config.json", "checkpoint-10", "checkpoint-10.tmp", "config.json", "my.deleting", "runs"}));
}

TEST(DurableWrite, FoldersAreMadeWithTheirParents) {
  const TemporaryFolder folder;
  make_folders(folder.path() + "/a/b/c");
  make_folders(folder.path() + "/a/b/c/");
  EXPECT_TRUE(std::filesystem::is_directory(folder.path() + "/a/b/c"));
  folder.write("file", "");
  const std::string line = test::error_of([&] { make_folders(folder.path() + "/file/x"); }, ErrorKind::kDisk);
  EXPECT_NE(line.find("/file: is not a folder"), std::string::npos) << line;
}

TEST(DurableWrite, AFullDiskTurnsIntoOneLine) {
  const Status full = write_synced("/dev/full", "x");
  const std::string line =
      test::error_of([&] { throw_if_failed(full, "/runs/a", "cannot be written"); }, ErrorKind::kDisk);
  EXPECT_EQ(line, "/runs/a: cannot be written: No space left on device; free space on this file system");
  EXPECT_NO_THROW(throw_if_failed(ok_status(), "", ""));
}

TEST(DurableWrite, AWriteThatFailsLeavesNothingBeside) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() + "/a.json");  // the name is taken by a folder
  EXPECT_EQ(write_durably(folder.path().c_str(), "a.json", "new").detail[0], EISDIR);
  EXPECT_EQ(folder_entries(folder.path()), Names{"a.json"});
}

TEST(DurableWrite, WritesAllOfASpanToAnyDescriptor) {
  const TemporaryFolder folder;
  const std::string content(100'000, 'x'), path = folder.path() + "/a";
  {
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_TRUE(write_all(file.number(), content.data(), content.size()).ok());
  }
  EXPECT_EQ(test::read_file(path), content);
  const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(write_all(full.number(), "x", 1).detail[0], ENOSPC);
}

// The second append does not fit the largest file that the process may write.
TEST(DurableWrite, AppendsAllOrNothing) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a", "begin ");
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  ASSERT_TRUE(append_all(file.number(), "one ", 4).ok());
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit few = {12, before.rlim_max};
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &few), 0);
  const Status refused = append_all(file.number(), "two", 3);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(refused.code, StatusCode::kDiskFailed);
  EXPECT_EQ(refused.detail[0], EFBIG);
  EXPECT_EQ(test::read_file(path), "begin one ");
  ASSERT_TRUE(append_all(file.number(), "three", 5).ok());
  EXPECT_EQ(test::read_file(path), "begin one three");
}

TEST(DurableWrite, AnOpenFileIsWrittenFromItsStart) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/a";
  OutputFile file(Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)));
  ASSERT_TRUE(file.write("one", 3).ok());
  ASSERT_TRUE(file.write("two", 3).ok());
  ASSERT_TRUE(file.sync_and_close().ok());
  EXPECT_EQ(test::read_file(path), "onetwo");
}

TEST(OutputFile, AFailedWriteNamesTheFileAndIsADiskError) {
  const std::string line =
      test::error_of([] { write_output_file("/nonexistent-folder/file.json", "{}"); }, ErrorKind::kDisk);
  EXPECT_EQ(line.find("/nonexistent-folder/file.json: cannot be written: No such file or directory"), 0u) << line;
}

TEST(OutputFile, ReplacesRegularFilesOnly) {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "old");
  write_output_file(path, "new");
  EXPECT_EQ(test::read_file(path), "new");
  std::filesystem::create_symlink(path, folder.path() + "/link");
  const std::string line = test::error_of([&] { write_output_file(folder.path() + "/link", "x"); }, ErrorKind::kDisk);
  EXPECT_NE(line.find("is not a regular file"), std::string::npos) << line;
  EXPECT_EQ(folder_entries(folder.path()), (Names{"file", "link"}));
}

TEST(OutputFile, ANameWithoutAFolderIsOfTheWorkingDirectory) {
  const TemporaryFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  write_output_file("file", "new");
  std::filesystem::current_path(before);
  EXPECT_EQ(test::read_file(folder.path() + "/file"), "new");
}

}  // namespace
}  // namespace bascule
