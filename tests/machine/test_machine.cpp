// SPDX-License-Identifier: Apache-2.0
#include "src/machine/machine.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "src/machine/machine_json.h"
#include "tests/machine/fact_tree.h"

namespace bascule {
namespace {

using MachineTree = test::FactTree;

TEST_F(MachineTree, AnEmptyTreeIsAllUnknown) { EXPECT_EQ(machine_json(read_machine(root())), machine_json(Machine{})); }

TEST_F(MachineTree, RubbishIsUnknown) {
  for (const char* file :
       {"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/self/limits", "/proc/self/status",
        "/proc/self/schedstat", "/proc/self/mountinfo", "/proc/self/cgroup", "/proc/vmstat", "/proc/self/numa_maps",
        "/proc/pressure/cpu", "/proc/sys/vm/swappiness", "/sys/kernel/mm/transparent_hugepage/enabled"})
    write(file, "\x01 - [ : MemTotal: x\nflags\nN=:\ncpu0 a b c d e f g h\n\xff");
  const Machine machine = read_machine(root());
  EXPECT_FALSE(machine.memory.bytes);
  EXPECT_FALSE(machine.memory.transparent);
  EXPECT_FALSE(machine.processor.name);
  EXPECT_FALSE(machine.counters.run_ns);
  EXPECT_FALSE(machine.counters.cpu_pressure_us);
  ASSERT_EQ(machine.counters.cores.size(), 1u);
  EXPECT_FALSE(machine.counters.cores[0].busy_ms);
}

TEST_F(MachineTree, TheProcessorIsReadFromItsFirstCore) {
  write("/proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Xeon(R) 8592+\n"
        "stepping\t: 2\nmicrocode\t: 0x21000283\nflags\t\t: fpu sse2 ht fma avx2 avx512_bf16 amx_tile hypervisor\n\n"
        "processor\t: 1\nmodel name\t: another\n");
  const ProcessorFacts facts = read_processor(root());
  EXPECT_EQ(facts.vendor, "GenuineIntel");
  EXPECT_EQ(facts.name, "Xeon(R) 8592+");
  EXPECT_EQ(facts.family, 6);
  EXPECT_EQ(facts.model, 207);
  EXPECT_EQ(facts.stepping, 2);
  EXPECT_EQ(facts.microcode, "0x21000283");
  EXPECT_EQ(facts.vector_flags, (std::vector<std::string>{"sse2", "fma", "avx2", "avx512_bf16", "amx_tile"}));
  EXPECT_EQ(facts.hypervisor, "unnamed");
  write("/sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc kvm-clock \n");
  EXPECT_EQ(read_processor(root()).hypervisor, "KVM");
  remove("/sys/devices");
  write("/proc/cpuinfo", "flags\t\t: fpu avx2\n");
  EXPECT_EQ(read_processor(root()).hypervisor, "none");
}

TEST_F(MachineTree, CoresCachesAndNodesAreListedOnce) {
  const std::string cpus = "/sys/devices/system/cpu/cpu";
  for (const char* core : {"0", "1", "10"}) {
    const std::string folder = cpus + core;
    write(folder + "/topology/physical_package_id", "0\n");
    write(folder + "/topology/core_id", std::string(core) + "\n");
    write(folder + "/topology/thread_siblings_list", "0,10\n");
    write(folder + "/node1/cpulist", "");
    write(folder + "/cpufreq/scaling_governor", "powersave\n");
    write(folder + "/cpufreq/cpuinfo_max_freq", "3900000\n");
    write(folder + "/cache/index0/level", "1\n");
    write(folder + "/cache/index0/type", "Data\n");
    write(folder + "/cache/index0/size", "48K\n");
    write(folder + "/cache/index0/shared_cpu_list", std::string(core) + "\n");
    write(folder + "/cache/index3/level", "3\n");
    write(folder + "/cache/index3/type", "Unified\n");
    write(folder + "/cache/index3/size", "266240K\n");
    write(folder + "/cache/index3/shared_cpu_list", "0-10\n");
  }
  write(cpus + "2/online", "0\n");  // switched off
  write("/sys/devices/system/cpu/cpufreq/boost", "1\n");
  write("/sys/devices/system/node/node1/cpulist", "0-1,10\n");
  write("/sys/devices/system/node/node1/distance", "21 10\n");
  write("/sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:       1024 kB\nNode 1 MemFree: 1 kB\n");
  const Machine machine = read_machine(root());
  ASSERT_EQ(machine.cores.size(), 3u);
  EXPECT_EQ(machine.cores[2].number, 10);
  EXPECT_EQ(machine.cores[2].core, 10);
  EXPECT_EQ(machine.cores[2].package, 0);
  EXPECT_EQ(machine.cores[2].node, 1);
  EXPECT_EQ(machine.cores[2].siblings, "0,10");
  EXPECT_EQ(machine.cores[2].governor, "powersave");
  EXPECT_EQ(machine.cores[2].most_khz, 3900000);
  EXPECT_FALSE(machine.cores[2].least_khz);
  ASSERT_EQ(machine.caches.size(), 4u);  // three of level 1, one of level 3
  EXPECT_EQ(machine.caches[0].bytes, 48 << 10);
  EXPECT_EQ(machine.caches[1].level, 3);
  EXPECT_EQ(machine.caches[1].bytes, 260 << 20);
  EXPECT_EQ(machine.caches[1].cores, "0-10");
  ASSERT_EQ(machine.nodes.size(), 1u);
  EXPECT_EQ(machine.nodes[0].number, 1);
  EXPECT_EQ(machine.nodes[0].cores, "0-1,10");
  EXPECT_EQ(machine.nodes[0].memory_bytes, 1 << 20);
  EXPECT_EQ(machine.nodes[0].distances, "21 10");
}

TEST_F(MachineTree, GroupsOfVersion1AreReadFromEachHierarchyUpwards) {
  mount_version_1();
  write("/sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_quota_us", "60000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/batch/cpu.stat", "nr_periods 50\nnr_throttled 40\nthrottled_time 1600000000\n");
  write("/sys/fs/cgroup/cpuset/batch/cpuset.effective_cpus", "0-1\n");
  write("/sys/fs/cgroup/memory/batch/job 7/memory.limit_in_bytes", "157286400\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const std::vector<GroupFacts> groups = read_groups(root());
  ASSERT_EQ(groups.size(), 8u);  // cpu: 3 levels, cpuset: 2, memory: 3
  EXPECT_EQ(groups[1].folder, "/sys/fs/cgroup/cpu,cpuacct/batch");
  EXPECT_EQ(groups[1].version, 1);
  EXPECT_DOUBLE_EQ(groups[1].processors.value_or(0.0), 0.6);
  EXPECT_FALSE(groups[0].processors);
  EXPECT_EQ(groups[3].cores, "0-1");
  EXPECT_EQ(groups[5].memory_bytes, 150 << 20);
  EXPECT_FALSE(groups[7].memory_bytes);  // "no limit"
  const std::vector<Counters::Group> counted = read_counters(root()).groups;
  ASSERT_EQ(counted.size(), 1u);
  EXPECT_EQ(counted[0].folder, "/sys/fs/cgroup/cpu,cpuacct/batch");
  EXPECT_EQ(counted[0].periods, 50);
  EXPECT_EQ(counted[0].throttled_periods, 40);
  EXPECT_EQ(counted[0].throttled_ns, 1600000000);
}

TEST_F(MachineTree, GroupsOfVersion2HaveAllControllersInOneFolder) {
  mount_version_2();
  const std::string folder = "/sys/fs/cgroup/user.slice/a";
  write(folder + "/cpu.max", "75000 50000\n");
  write(folder + "/cpuset.cpus.effective", "0-3,8\n");
  write(folder + "/memory.max", "157286400\n");
  write(folder + "/cpu.stat", "usage_usec 5\nnr_periods 7\nnr_throttled 3\nthrottled_usec 2000\n");
  const std::vector<GroupFacts> groups = read_groups(root());
  ASSERT_EQ(groups.size(), 4u);
  EXPECT_EQ(groups[1].folder, folder);
  EXPECT_DOUBLE_EQ(groups[1].processors.value_or(0.0), 1.5);
  EXPECT_EQ(groups[1].cores, "0-3,8");
  EXPECT_EQ(groups[1].memory_bytes, 150 << 20);
  const std::vector<Counters::Group> counted = read_counters(root()).groups;
  ASSERT_EQ(counted.size(), 1u);
  EXPECT_EQ(counted[0].throttled_ns, 2000000);
}

TEST_F(MachineTree, MemoryAndItsChannels) {
  write("/proc/meminfo", "MemTotal: 2048 kB\nSwapTotal: 4 kB\nHugePages_Total: 3\nHugepagesize: 2048 kB\n");
  write("/proc/sys/vm/swappiness", "60\n");
  write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  write("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "always within_size advise [never] deny force\n");
  for (const char* controller : {"/sys/devices/system/edac/mc/mc0", "/sys/devices/system/edac/mc/mc1"}) {
    write(std::string(controller) + "/max_location", "channel 3 slot 1 \n");
    for (const char* module : {"0", "2", "4", "6"}) {  // number 2 is empty; the size of number 6 is unknown
      const std::string folder = std::string(controller) + "/dimm" + module;
      const std::string channel = *module < '4' ? "0" : *module == '4' ? "2" : "3";
      write(folder + "/dimm_location", "channel " + channel + " slot 0 \n");
      if (*module != '6') write(folder + "/size", *module == '2' ? "0\n" : "32768\n");
    }
  }
  const MemoryFacts facts = read_memory(root());
  EXPECT_EQ(facts.bytes, 2 << 20);
  EXPECT_EQ(facts.swap_bytes, 4096);
  EXPECT_EQ(facts.swappiness, 60);
  EXPECT_EQ(facts.huge_pages_reserved, 3);
  EXPECT_EQ(facts.huge_page_bytes, 2 << 20);
  EXPECT_EQ(facts.transparent, "madvise");
  EXPECT_EQ(facts.shared_transparent, "never");
  EXPECT_EQ(facts.channels, 8);
  EXPECT_EQ(facts.channels_filled, 4);
}

TEST_F(MachineTree, KernelAndProcess) {
  write("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
  write("/proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1\n");
  write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
  write("/sys/devices/system/cpu/vulnerabilities/spectre_v2", "Mitigation: Retpolines\n");
  write("/sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n");
  write("/proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max stack size            1048576              unlimited            bytes     \n"
        "Max locked memory         65536                65536                bytes     \n"
        "Max address space         unlimited            unlimited            bytes     \n");
  write("/proc/self/status",
        "Name:\tbascule\nVmSize:\t  102400 kB\nCapEff:\t0000000000004000\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n");
  write("/proc/self/numa_maps",
        "00400000 default file=/bin/x mapped=3 N0=3 kernelpagesize_kB=4\n"
        "7f000000 default anon=512 dirty=512 N0=500 N1=12 kernelpagesize_kB=4\n");
  const Machine machine = read_machine(root());
  EXPECT_EQ(machine.kernel.release, "6.1.0-18-amd64");
  EXPECT_EQ(machine.kernel.build, "#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1");
  EXPECT_EQ(machine.kernel.clock_source, "hpet");
  ASSERT_EQ(machine.kernel.mitigations.size(), 2u);
  EXPECT_EQ(machine.kernel.mitigations[1].name, "spectre_v2");
  EXPECT_EQ(machine.kernel.mitigations[1].state, "Mitigation: Retpolines");
  const ProcessFacts& process = machine.process;
  EXPECT_EQ(process.locked_bytes, 65536);
  EXPECT_EQ(process.address_bytes, kUnlimited);
  EXPECT_FALSE(process.data_bytes);
  EXPECT_EQ(process.may_lock_all, true);
  EXPECT_EQ(process.cores, "0-1");
  EXPECT_EQ(process.address_bytes_used, 100 << 20);
  ASSERT_EQ(process.pages.size(), 2u);
  EXPECT_EQ(process.pages[0].pages, 503);
  EXPECT_EQ(process.pages[1].pages, 12);
}

TEST_F(MachineTree, CountersAreOfAllThreadsCoresAndPressures) {
  write("/proc/self/schedstat", "7 8 9\n");
  EXPECT_EQ(read_counters(root()).run_ns, 7);  // a kernel that lists no threads
  write("/proc/self/task/40/schedstat", "1000 20 3\n");
  write("/proc/self/task/41/schedstat", "500 5 1\n");
  write("/proc/stat", "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 100 50 4 5 6 0 0\ncpu3 10 0 0 0 0 0 0 0 0 0\nintr 5\n");
  write("/sys/devices/system/cpu/cpu3/cpufreq/scaling_cur_freq", "800000\n");
  write("/sys/devices/system/cpu/cpu3/thermal_throttle/core_throttle_count", "2\n");
  write("/sys/devices/system/cpu/cpu3/thermal_throttle/package_throttle_count", "40\n");
  write("/proc/pressure/cpu", "some avg10=0.72 avg60=0.84 avg300=3.83 total=38072202042\nfull avg10=0 total=9\n");
  write("/proc/vmstat", "pswpin 3\npswpout 4\npswpin_other 100\n");
  const Counters counters = read_counters(root());
  EXPECT_EQ(counters.run_ns, 1500);
  EXPECT_EQ(counters.run_delay_ns, 25);
  ASSERT_EQ(counters.cores.size(), 2u);
  const std::int64_t tick_ms = 1000 / sysconf(_SC_CLK_TCK);
  EXPECT_EQ(counters.cores[0].busy_ms, 15 * tick_ms);
  EXPECT_EQ(counters.cores[0].stolen_ms, 6 * tick_ms);
  EXPECT_FALSE(counters.cores[0].khz);
  EXPECT_EQ(counters.cores[1].number, 3);
  EXPECT_EQ(counters.cores[1].khz, 800000);
  EXPECT_EQ(counters.cores[1].throttles, 42);
  EXPECT_EQ(counters.cpu_pressure_us, 38072202042);
  EXPECT_FALSE(counters.io_pressure_us);
  EXPECT_FALSE(counters.memory_pressure_us);
  EXPECT_EQ(counters.cores[0].number, 0);
  EXPECT_EQ(counters.cores[1].busy_ms, 10 * tick_ms);
  EXPECT_EQ(counters.cores[1].stolen_ms, 0);
  EXPECT_FALSE(counters.cores[0].throttles);
  write("/proc/pressure/memory", "some avg10=0.00 total=5\n");
  write("/proc/pressure/io", "some avg10=0.00 total=6\n");
  write("/proc/pressure/cpu", "full avg10=0.00 total=7\n");
  const Counters later = read_counters(root());
  EXPECT_EQ(later.memory_pressure_us, 5);
  EXPECT_EQ(later.io_pressure_us, 6);
  EXPECT_FALSE(later.cpu_pressure_us);
  EXPECT_EQ(counters.pages_swapped, 7);
}

TEST(Machine, AListOfCoresIsReadOrNotAtAll) {
  EXPECT_EQ(numbers_of_list("0-2,8"), (std::vector<std::int64_t>{0, 1, 2, 8}));
  for (const char* list : {"", "x", "0-", "0,-1", "0-99999999999"}) EXPECT_TRUE(numbers_of_list(list).empty()) << list;
  EXPECT_TRUE(numbers_of_list(std::nullopt).empty());
}

TEST(Machine, OfThisSystemIsSensible) {
  const Machine machine = read_machine();
  EXPECT_GT(machine.memory.bytes.value_or(0), 64 << 20);
  EXPECT_FALSE(machine.cores.empty());
  EXPECT_TRUE(machine.kernel.release);
  EXPECT_GT(machine.process.address_bytes_used.value_or(0), 1 << 20);
}

TEST(Machine, TheDiskOfAFolderHasRoom) {
  const DiskFacts disk = read_disk(testing::TempDir());
  EXPECT_GT(disk.bytes.value_or(0), 0);
  EXPECT_LE(disk.free_bytes.value_or(0), disk.bytes.value_or(0));
  EXPECT_FALSE(read_disk("/no/such/folder").free_bytes);
  struct statvfs space = {};
  ASSERT_EQ(::statvfs(testing::TempDir().c_str(), &space), 0);
  EXPECT_EQ(disk.bytes, static_cast<std::int64_t>(space.f_blocks * space.f_frsize));
}

TEST_F(MachineTree, TheMountOfAFolderIsThatOfItsDevice) {
  struct stat at = {};
  ASSERT_EQ(::stat(root().c_str(), &at), 0);
  const std::string device = std::to_string(major(at.st_dev)) + ":" + std::to_string(minor(at.st_dev));
  EXPECT_FALSE(read_disk(root(), root()).type);
  write("/proc/self/mountinfo", "20 1 999:7 / / rw,other - ext2 /dev/other rw\n21 1 " + device +
                                    " / /a rw no dash\n22 1 " + device + " / - ext3 /dev/short\n23 1 " + device +
                                    " / /b ro,noatime shared:1 - xfs /dev/right rw,discard\n24 1 " + device +
                                    " / /c rw - ext4 /dev/later rw\n");
  const DiskFacts disk = read_disk(root(), root());
  EXPECT_EQ(disk.type, "xfs");
  EXPECT_EQ(disk.device, "/dev/right");
  EXPECT_EQ(disk.options, "ro,noatime");
  EXPECT_TRUE(disk.bytes);
  EXPECT_FALSE(read_disk(root() + "/none", root()).type);
}

}  // namespace
}  // namespace bascule
