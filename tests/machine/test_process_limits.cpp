// SPDX-License-Identifier: Apache-2.0
#include "src/machine/process_limits.h"

#include <unistd.h>

#include <cmath>

#include <gtest/gtest.h>

#include "tests/machine/fact_tree.h"

namespace bascule {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

class ProcessLimitsTree : public test::FactTree {
 protected:
  void SetUp() override {
    FactTree::SetUp();
    write("/proc/meminfo", "MemTotal:        8388608 kB\nMemFree:          123456 kB\n");
  }
  ProcessLimits read() const { return read_process_limits(root()); }
};

TEST_F(ProcessLimitsTree, AMachineWithoutGroupsAllowsItsMemory) {
  const ProcessLimits limits = read();
  EXPECT_EQ(limits.memory_bytes, 8192 * kMiB);
  EXPECT_EQ(limits.memory_owner, "this machine");
  EXPECT_EQ(limits.address_bytes, kUnlimitedBytes);
  EXPECT_EQ(limits.data_bytes, kUnlimitedBytes);
  EXPECT_TRUE(std::isinf(limits.processors));
}

TEST_F(ProcessLimitsTree, EveryLevelOfVersion1LimitsMemory) {
  mount_version_1();
  const std::string top = "/sys/fs/cgroup/memory";
  for (const char* group : {"", "/batch", "/batch/job 7"})
    write(top + group + "/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(read().memory_bytes, 8192 * kMiB);
  for (const char* group : {"", "/batch", "/batch/job 7"}) {
    const std::string file = top + group + "/memory.limit_in_bytes";
    write(file, "157286400\n");
    EXPECT_EQ(read().memory_bytes, 150 * kMiB) << group;
    EXPECT_EQ(read().memory_owner, file);
    write(file, "9223372036854771712\n");
  }
  write(top + "/other/memory.limit_in_bytes", "1048576\n");
  EXPECT_EQ(read().memory_bytes, 8192 * kMiB);  // not above this process
}

TEST_F(ProcessLimitsTree, EveryLevelOfVersion2LimitsMemory) {
  mount_version_2();
  const std::string top = "/sys/fs/cgroup/user.slice";
  for (const char* group : {"", "/a", "/a/b"}) write(top + group + "/memory.max", "max\n");
  EXPECT_EQ(read().memory_bytes, 8192 * kMiB);
  for (const char* group : {"", "/a", "/a/b"}) {
    write(top + group + "/memory.max", "157286400\n");
    EXPECT_EQ(read().memory_bytes, 150 * kMiB) << group;
    write(top + group + "/memory.max", "max\n");
  }
}

TEST_F(ProcessLimitsTree, TheLeastOfSeveralLimitsCounts) {
  mount_version_1();
  write("/sys/fs/cgroup/memory/batch/memory.limit_in_bytes", "104857600\n");
  write("/sys/fs/cgroup/memory/batch/job 7/memory.limit_in_bytes", "209715200\n");
  EXPECT_EQ(read().memory_bytes, 100 * kMiB);
  EXPECT_EQ(read().memory_owner, "/sys/fs/cgroup/memory/batch/memory.limit_in_bytes");
}

TEST_F(ProcessLimitsTree, AContainerHasMountedItsOwnGroupAsTheTop) {
  write("/proc/self/mountinfo", "35 31 0:32 /docker/0a1b /sys/fs/cgroup/my\\040memory ro - cgroup cgroup rw,memory\n");
  write("/proc/self/cgroup", "4:memory:/docker/0a1b/inner\n");
  write("/sys/fs/cgroup/my memory/memory.limit_in_bytes", "104857600\n");
  EXPECT_EQ(read().memory_bytes, 100 * kMiB);
  write("/sys/fs/cgroup/my memory/inner/memory.limit_in_bytes", "52428800\n");
  EXPECT_EQ(read().memory_bytes, 50 * kMiB);
  write("/proc/self/cgroup", "4:memory:/../elsewhere\n");  // outside of what is mounted here
  EXPECT_EQ(read().memory_bytes, 100 * kMiB);
}

TEST_F(ProcessLimitsTree, AGroupWhoseNameOnlyBeginsLikeTheMountedOneIsOutside) {
  write("/proc/self/mountinfo", "35 31 0:32 /docker/0a1b /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  write("/proc/self/cgroup", "4:memory:/docker/0a1bc/inner\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "104857600\n");
  EXPECT_EQ(read().memory_bytes, 100 * kMiB);
}

TEST_F(ProcessLimitsTree, EveryLevelLimitsProcessorTime) {
  mount_version_1();
  const std::string top = "/sys/fs/cgroup/cpu,cpuacct/batch";
  write(top + "/cpu.cfs_period_us", "100000\n");
  write(top + "/cpu.cfs_quota_us", "-1\n");
  EXPECT_TRUE(std::isinf(read().processors));
  write(top + "/cpu.cfs_quota_us", "60000\n");
  write(top + "/job 7/cpu.cfs_period_us", "50000\n");
  write(top + "/job 7/cpu.cfs_quota_us", "100000\n");
  EXPECT_DOUBLE_EQ(read().processors, 0.6);
  write(top + "/job 7/cpu.cfs_quota_us", "25000\n");
  EXPECT_DOUBLE_EQ(read().processors, 0.5);
  mount_version_2();
  write("/sys/fs/cgroup/user.slice/a/b/cpu.max", "max 100000\n");
  EXPECT_TRUE(std::isinf(read().processors));
  write("/sys/fs/cgroup/user.slice/cpu.max", "250000 100000\n");
  EXPECT_DOUBLE_EQ(read().processors, 2.5);
}

TEST_F(ProcessLimitsTree, TheProcessHasLimitsOfItsOwn) {
  write("/proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max data size             209715200            unlimited            bytes     \n"
        "Max stack size            1048576              unlimited            bytes     \n"
        "Max address space         314572800            unlimited            bytes     \n");
  write("/proc/self/status", "Name:\tbascule\nVmPeak:\t  200 kB\nVmSize:\t  102400 kB\nVmData:\t    2048 kB\n");
  const ProcessLimits limits = read();
  EXPECT_EQ(limits.address_bytes, 300 * kMiB);
  EXPECT_EQ(limits.data_bytes, 200 * kMiB);
  EXPECT_EQ(limits.stack_bytes, 1 * kMiB);
  EXPECT_EQ(limits.address_bytes_used, 100 * kMiB);
  EXPECT_EQ(limits.data_bytes_used, 2 * kMiB);
}

TEST(ProcessLimits, OfThisProcessAreSensible) {
  const ProcessLimits limits = read_process_limits();
  EXPECT_GT(limits.memory_bytes, 16 * kMiB);
  EXPECT_LE(limits.memory_bytes,
            static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  EXPECT_GT(limits.address_bytes_used, 1 * kMiB);
  EXPECT_GT(limits.data_bytes_used, 0u);
}

TEST(ThreadsWithin, TakesWholeProcessorsOfAQuotaAndAtLeastOne) {
  ProcessLimits limits;
  EXPECT_EQ(threads_within(limits, 4, 1), 4);
  const auto threads = [&](double processors, int cores, int processes) {
    limits.processors = processors;
    return threads_within(limits, cores, processes);
  };
  EXPECT_EQ(threads(0.6, 2, 1), 1);
  EXPECT_EQ(threads(1.9, 2, 1), 1);
  EXPECT_EQ(threads(2.0, 2, 1), 2);
  EXPECT_EQ(threads(8.0, 2, 1), 2);
  EXPECT_EQ(threads(8.0, 16, 4), 2);  // each of four ranks
  EXPECT_EQ(threads(2.0, 16, 4), 1);
}

}  // namespace
}  // namespace bascule
