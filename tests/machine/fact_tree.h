// SPDX-License-Identifier: Apache-2.0
// A folder that looks like / to the readers of src/machine: /proc, /sys, and below them whatever a test puts there.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace bascule::test {

class FactTree : public testing::Test {
 protected:
  void SetUp() override {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::path(testing::TempDir()) / (std::string(test.name()) + "_" + std::to_string(getpid()));
    std::filesystem::create_directories(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string root() const { return root_.string(); }
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_.string() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void remove(const std::string& path) const { std::filesystem::remove_all(root_.string() + path); }

  // Version 1, with memory and processors in hierarchies of their own; the process is in /batch/job 7.
  void mount_version_1() const {
    write("/proc/self/mountinfo",
          "23 27 0:22 / /sys rw,relatime - sysfs sysfs rw\n"
          "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
          "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
          "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:7 - cgroup cgroup rw,memory\n"
          "40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n");
    write("/proc/self/cgroup",
          "9:name=systemd:/\n4:memory:/batch/job 7\n3:cpuset:/batch\n1:cpu,cpuacct:/batch/job 7\n0::/\n");
  }
  // Version 2; the process is in /user.slice/a/b.
  void mount_version_2() const {
    write("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
    write("/proc/self/cgroup", "0::/user.slice/a/b\n");
  }

 private:
  std::filesystem::path root_;
};

}  // namespace bascule::test
