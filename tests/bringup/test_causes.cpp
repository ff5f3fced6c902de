// SPDX-License-Identifier: Apache-2.0
// Every cause on a tree of files: named where the tree has the evidence, and it alone.
#include "src/bringup/profile.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/machine/fact_tree.h"

namespace bascule {
namespace {

Figure figure(const char* item, const char* place, const char* unit, double value, bool more_is_better = true) {
  Figure made;
  made.item = item;
  made.name = "a figure";
  made.place = place;
  made.unit = unit;
  made.more_is_better = more_is_better;
  made.rounds = {value, value * 1.01, value * 0.99};
  return made;
}

class Causes : public test::FactTree {
 protected:
  void SetUp() override {
    FactTree::SetUp();
    mount_version_2();
    write("/proc/cpuinfo", "microcode\t: 0x1\nflags\t\t: avx2\n");
    write("/proc/self/status", "CapEff:\t0000000000000000\nCpus_allowed_list:\t0-1\n");
    write("/proc/self/limits", "Max locked memory         8388608              8388608              bytes     \n");
    write("/proc/stat", "cpu0 0 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\n");
    write("/proc/vmstat", "pswpin 0\npswpout 0\n");
    write("/proc/sys/kernel/osrelease", "6.1.0\n");
    write("/proc/self/numa_maps", "7f00 default anon=1000 N0=1000\n");
    for (const char* core : {"0", "1"}) {
      const std::string folder = std::string("/sys/devices/system/cpu/cpu") + core;
      write(folder + "/cpufreq/scaling_governor", "performance\n");
      write(folder + "/thermal_throttle/core_throttle_count", "0\n");
    }
    write("/sys/devices/system/cpu/vulnerabilities/spectre_v2", "Not affected\n");
    write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    write("/sys/devices/system/node/node0/cpulist", "0-1\n");
    write("/sys/devices/system/node/node1/cpulist", "2-3\n");
    write("/sys/devices/system/edac/mc/mc0/max_location", "channel 1 slot 0 \n");
    write_module("0", "32768");
    write_module("1", "32768");
    write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  }

  void write_module(const std::string& channel, const std::string& mib) const {
    const std::string folder = "/sys/devices/system/edac/mc/mc0/dimm" + channel;
    write(folder + "/dimm_location", "channel " + channel + " slot 0 \n");
    write(folder + "/size", mib + "\n");
  }

  // All figures `factor` times as fast as in the profile.
  BringUp measured(double factor) const {
    BringUp run;
    run.cores = 2;
    run.huge_share = 1.0;
    run.machine = read_machine(root());
    run.before = run.machine.counters;
    run.figures = {figure("clock", "core 0", "GHz", 2.0),
                   figure("products", "core 0", "GFLOP/s", 100.0 * factor),
                   figure("products", "all cores", "GFLOP/s", 200.0 * factor),
                   figure("memory", "all cores", "GB/s", 20.0 * factor),
                   figure("pages", "", "MiB", 64.0 * factor),
                   figure("disk", "", "ms", 1.0, false)};
    return run;
  }

  // The causes of any figure when `change` happens to the machine or the run: the same for each cause once.
  std::vector<std::string> names_after(
      const std::function<void(BringUp*)>& change_run, const std::function<void()>& change_machine = [] {},
      double factor = 0.3) const {
    const BringUp saved = measured(1.0);
    change_machine();
    BringUp now = measured(factor);
    now.before = saved.machine.counters;
    change_run(&now);
    std::vector<std::string> names;
    for (const FigureJudgement& judgement : judge(now, saved)) {
      for (const Cause& cause : judgement.causes) {
        EXPECT_FALSE(cause.evidence.empty());
        EXPECT_FALSE(cause.remedy.empty());
        if (std::find(names.begin(), names.end(), cause.name) == names.end()) names.push_back(cause.name);
      }
    }
    return names;
  }
  std::vector<std::string> names_after_writing(const std::string& path, const std::string& text) const {
    return names_after([](BringUp*) {}, [&] { write(path, text); });
  }
};

using Names = std::vector<std::string>;

void take(BringUp* run, double TakenTime::*share) {
  for (Figure& figure : run->figures) {
    figure.taken.*share = 0.4;
    if (share != &TakenTime::siblings) figure.taken.missing = 0.4;
  }
}

TEST_F(Causes, WithoutEvidenceNoneIsNamed) {
  EXPECT_EQ(names_after([](BringUp*) {}), Names{});
}

TEST_F(Causes, TimeThatWasTakenByNobodyWhoIsKnownIsLost) {
  EXPECT_EQ(names_after([](BringUp* run) {
              for (Figure& figure : run->figures) figure.taken.missing = 0.4;
            }),
            Names{"lost time"});
}

TEST_F(Causes, AQuotaIsOneOnlyWhenItTookTime) {
  const auto write_quota = [&] { write("/sys/fs/cgroup/user.slice/cpu.max", "60000 100000\n"); };
  EXPECT_EQ(names_after([](BringUp* run) { take(run, &TakenTime::throttled); }, write_quota), Names{"quota"});
  EXPECT_EQ(names_after([](BringUp*) {}, write_quota), Names{});
}

TEST_F(Causes, ThreadsUnderAQuotaAlsoWaitForACore) {
  EXPECT_EQ(names_after(
                [](BringUp* run) {
                  take(run, &TakenTime::throttled);
                  take(run, &TakenTime::delay);
                  take(run, &TakenTime::others);
                },
                [&] { write("/sys/fs/cgroup/user.slice/cpu.max", "60000 100000\n"); }),
            Names{"quota"});
}

TEST_F(Causes, FewerCoresExplainFiguresOfAllCores) {
  EXPECT_EQ(names_after([](BringUp* run) { run->cores = 1; }), Names{"fewer cores"});
}

TEST_F(Causes, AnotherProcessHasUsedTheCoresThatWereWaitedFor) {
  EXPECT_EQ(names_after([](BringUp* run) { take(run, &TakenTime::delay); }), Names{"lost time"});
  EXPECT_EQ(names_after([](BringUp* run) {
              take(run, &TakenTime::delay);
              take(run, &TakenTime::others);
            }),
            Names{"another process"});
}

// The kernel counts the time of others in ticks: a figure of a few milliseconds may see none of it.
TEST_F(Causes, TheBusiestProcessIsNamedAlsoWhereAFigureIsShort) {
  const BringUp saved = measured(1.0);
  BringUp now = measured(0.3);
  now.before = saved.machine.counters;
  now.neighbour = "cc1plus (process 9)";
  take(&now, &TakenTime::delay);
  const std::vector<FigureJudgement> judgements = judge(now, saved);
  ASSERT_EQ(judgements[1].causes.size(), 1u);
  EXPECT_EQ(judgements[1].causes[0].name, "another process");
  EXPECT_EQ(judgements[1].causes[0].evidence,
            "waited 40 % of its time for a core; the busiest during the bring-up was cc1plus (process 9)");
  take(&now, &TakenTime::others);
  EXPECT_EQ(judge(now, saved)[1].causes[0].evidence,
            "waited 40 % of its time for a core; other processes used 40 % of it; the busiest during the bring-up was "
            "cc1plus (process 9)");
}

TEST_F(Causes, Steal) {
  EXPECT_EQ(names_after([](BringUp* run) { take(run, &TakenTime::stolen); }), Names{"steal"});
}

TEST_F(Causes, ABusySibling) {
  EXPECT_EQ(names_after([](BringUp* run) { take(run, &TakenTime::siblings); }), Names{"SMT sibling"});
}

TEST_F(Causes, AnotherGovernor) {
  EXPECT_EQ(names_after_writing("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
            Names{"governor"});
}

TEST_F(Causes, ALowFrequencyIsMeasured) {
  EXPECT_EQ(names_after([](BringUp* run) { run->figures[0] = figure("clock", "core 0", "GHz", 1.2); }),
            Names{"low frequency"});
}

TEST_F(Causes, ThermalThrottlingIsCountedMeanwhile) {
  EXPECT_EQ(names_after_writing("/sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "7\n"),
            Names{"thermal throttling"});
}

TEST_F(Causes, ThrottlingOfOneCoreBeforehandIsNotThatOfAnother) {
  write("/sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "7\n");
  EXPECT_EQ(names_after([](BringUp*) {}), Names{});
}

TEST_F(Causes, MemoryOfANodeWithoutOwnCores) {
  EXPECT_EQ(names_after_writing("/proc/self/numa_maps", "7f00 default anon=1000 N0=200 N1=800\n"),
            Names{"remote memory"});
}

TEST_F(Causes, MemoryConcernsTheItemsThatUseIt) {
  const auto measured_all = [&](double factor) {
    BringUp run = measured(factor);
    for (const char* item : {"latency", "kernels", "allreduce"})
      run.figures.push_back(figure(item, "all cores", "GB/s", factor));
    return run;
  };
  const BringUp saved = measured_all(1.0);
  write("/proc/self/numa_maps", "7f00 default anon=1000 N0=200 N1=800\n");
  const BringUp now = measured_all(0.3);
  const std::vector<FigureJudgement> judgements = judge(now, saved);
  Names concerned;
  for (std::size_t i = 0; i < judgements.size(); ++i) {
    if (!judgements[i].causes.empty()) concerned.push_back(now.figures[i].item);
  }
  EXPECT_EQ(concerned, (Names{"memory", "pages", "latency", "kernels", "allreduce"}));
}

TEST_F(Causes, AMissingMemoryChannel) {
  EXPECT_EQ(names_after([](BringUp*) {}, [&] { write_module("1", "0"); }), Names{"missing memory channels"});
}

TEST_F(Causes, NoHugePages) {
  EXPECT_EQ(names_after([](BringUp* run) { run->huge_share = 0.0; }), Names{"no huge pages"});
  EXPECT_EQ(names_after([](BringUp* run) { run->huge_share.reset(); }), Names{});  // unknown
}

TEST_F(Causes, ASmallMemlock) {
  EXPECT_EQ(names_after_writing("/proc/self/limits", "Max locked memory         65536   65536    bytes\n"),
            Names{"memlock"});
}

TEST_F(Causes, NobodyTakesTimeFromHowMuchMayBeLocked) {
  const BringUp saved = measured(1.0);
  write("/proc/self/limits", "Max locked memory         65536   65536    bytes\n");
  BringUp now = measured(0.3);
  now.before = saved.machine.counters;
  Figure& locked = now.figures[4];
  ASSERT_EQ(locked.unit, "MiB");
  locked.taken.delay = locked.taken.others = locked.taken.stolen = locked.taken.throttled = 0.5;
  const std::vector<FigureJudgement> judgements = judge(now, saved);
  ASSERT_EQ(judgements[4].causes.size(), 1u);
  EXPECT_EQ(judgements[4].causes[0].name, "memlock");
}

TEST_F(Causes, Swapping) { EXPECT_EQ(names_after_writing("/proc/vmstat", "pswpin 9\npswpout 9000\n"), Names{"swap"}); }

TEST_F(Causes, AnotherClockSource) {
  EXPECT_EQ(names_after_writing("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
            Names{"clock source"});
}

TEST_F(Causes, ASlowFsync) {
  EXPECT_EQ(names_after([](BringUp* run) { run->figures[5] = figure("disk", "", "ms", 30.0, false); }, [] {}, 1.0),
            Names{"slow fsync"});
}

TEST_F(Causes, ChangedMicrocodeKernelOrMitigations) {
  EXPECT_EQ(names_after_writing("/proc/cpuinfo", "microcode\t: 0x2\nflags\t\t: avx2\n"), Names{"changed microcode"});
  EXPECT_EQ(names_after_writing("/proc/sys/kernel/osrelease", "6.2.0\n"), Names{"changed kernel"});
  EXPECT_EQ(names_after_writing("/sys/devices/system/cpu/vulnerabilities/spectre_v2", "Mitigation: Retpolines\n"),
            Names{"changed mitigations"});
}

TEST_F(Causes, ADebugBuild) {
  EXPECT_EQ(names_after([](BringUp* run) { run->optimised = false; }), Names{"debug build"});
}

TEST_F(Causes, WhatWasSoInTheProfileExplainsNothing) {
  write("/sys/fs/cgroup/user.slice/cpu.max", "60000 100000\n");
  write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
  write_module("1", "0");
  EXPECT_EQ(names_after([](BringUp*) {}), Names{});
}

// The evidence of this cause for a figure; "" where it is not named.
std::string evidence_of(const char* cause, const Figure& figure, const BringUp& now, const BringUp& saved) {
  for (const Cause& one : causes_of(figure, now, find_figure(saved, figure.key()), &saved)) {
    if (one.name == cause) return one.evidence;
  }
  return "";
}

TEST_F(Causes, FewLargePagesExplainNothingWhereTheProfileHadFewToo) {
  BringUp saved = measured(1.0), now = measured(0.3);
  now.huge_share = 0.1;
  EXPECT_NE(evidence_of("no huge pages", now.figures[3], now, saved), "");
  saved.huge_share = 0.2;
  EXPECT_EQ(evidence_of("no huge pages", now.figures[3], now, saved), "");
}

TEST(Evidence, OfSeveralQuotasTheLeastIsNamed) {
  BringUp now;
  const std::pair<const char*, std::optional<double>> groups[] = {
      {"/a", 4.0}, {"/b", 0.6}, {"/c", std::nullopt}, {"/d", 2.0}};
  for (const auto& [folder, processors] : groups) {
    GroupFacts group;
    group.folder = folder;
    group.processors = processors;
    now.machine.groups.push_back(group);
  }
  Figure taken = figure("products", "core 0", "GFLOP/s", 50.0);
  taken.taken.throttled = 0.4;
  EXPECT_EQ(evidence_of("quota", taken, now, BringUp()), "/b allows 0.60 cores, which took 40 % of the time");
}

TEST(Evidence, AClockIsLowBelowATwentiethLess) {
  const Figure slow = figure("products", "core 0", "GFLOP/s", 50.0);
  const auto evidence_at = [&](double share) {
    BringUp now, saved;
    saved.figures = {figure("clock", "core 0", "GHz", 2.0)};
    now.figures = {figure("clock", "core 0", "GHz", 2.0 * share / 1.01)};  // its best round is a hundredth better
    return evidence_of("low frequency", slow, now, saved);
  };
  EXPECT_EQ(evidence_at(0.96), "");
  EXPECT_EQ(evidence_at(0.94), "core 0 runs at 1.88 GHz, 2.00 in the profile");
}

TEST(Evidence, AMemoryIsRemoteFromATenthOn) {
  BringUp now;
  now.machine.process.cores.emplace("0-1");
  now.machine.nodes.resize(2);
  now.machine.nodes[0].cores.emplace("0-1");
  now.machine.nodes[1].number = 1;
  now.machine.nodes[1].cores.emplace("2-3");
  const auto evidence_with = [&](std::int64_t far) {
    now.machine.process.pages = {{0, 100 - far}, {1, far}};
    return evidence_of("remote memory", figure("memory", "core 0", "GB/s", 5.0), now, BringUp());
  };
  EXPECT_EQ(evidence_with(9), "");
  EXPECT_EQ(evidence_with(11), "11 % of the memory lies at a NUMA node whose cores are not used");
}

TEST(Evidence, ARankHasRemoteMemoryWhereItsNodeHadTooLittleFree) {
  BringUp now, saved;
  const auto evidence = [&] {
    return evidence_of("remote memory", figure("memory", "core 0", "GB/s", 5.0), now, saved);
  };
  EXPECT_EQ(evidence(), "");
  now.far_share = 0.09;
  EXPECT_EQ(evidence(), "");
  now.far_share = 0.11;
  EXPECT_EQ(evidence(), "11 % of the arena that a rank on the cores of one NUMA node would have lies at other nodes");
  saved.far_share = 0.11;  // so it was in the profile
  EXPECT_EQ(evidence(), "");
}

TEST(Evidence, AnFsyncIsSlowFromTwiceTheTimeOn) {
  const auto evidence_at = [](double milliseconds) {
    BringUp now, saved;
    saved.figures = {figure("disk", "", "ms", 1.0, false)};
    now.figures = {figure("disk", "", "ms", milliseconds / 0.99, false)};  // its best round is a hundredth better
    return evidence_of("slow fsync", now.figures[0], now, saved);
  };
  EXPECT_EQ(evidence_at(1.9), "");
  EXPECT_EQ(evidence_at(2.1), "fsync takes 2.12 ms, 1 in the profile");
}

TEST_F(Causes, WithoutAProfileTheMachineAloneIsJudged) {
  BringUp run = measured(1.0);
  EXPECT_TRUE(causes_of(run.figures[3], run, nullptr, nullptr).empty());
  write_module("1", "0");
  run = measured(1.0);
  run.optimised = false;
  const std::vector<Cause> causes = causes_of(run.figures[3], run, nullptr, nullptr);
  ASSERT_EQ(causes.size(), 2u);
  EXPECT_EQ(causes[0].name, "missing memory channels");
  EXPECT_EQ(causes[0].evidence, "1 of 2 memory channels have a module");
  EXPECT_EQ(causes[1].name, "debug build");
}

}  // namespace
}  // namespace bascule
