// SPDX-License-Identifier: Apache-2.0
// Judges a bring-up against a profile, and says why a figure is worse.
#include "src/bringup/profile.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "src/base/error.h"

namespace bascule {
namespace {

constexpr double kMuch = 0.05;  // of the time of a figure: less is noise

struct Case {
  const Figure& figure;
  const BringUp& now;
  const Figure* was;
  const BringUp* saved;

  TakenTime taken_before() const { return was != nullptr ? was->taken : TakenTime{}; }
  bool is(const char* item) const { return figure.item == item; }
  bool is_of_all_cores() const { return figure.place == "all cores"; }
};

std::string percent(double share) { return formatted("%.0f %%", 100.0 * share); }

// "X now, Y in the profile"
std::string changed(const std::string& now, const std::string& was) { return now + " now, " + was + " in the profile"; }

// Facts that both know, and that differ.
std::string difference(const TextFact& now, const TextFact& was) {
  return now && was && *now != *was ? changed(*now, *was) : "";
}

std::string quota(const Case& c) {
  const double taken = c.figure.taken.throttled;
  if (taken - c.taken_before().throttled < kMuch) return "";
  const GroupFacts* least = nullptr;
  for (const GroupFacts& group : c.now.machine.groups) {
    if (group.processors && (least == nullptr || *group.processors < *least->processors)) least = &group;
  }
  if (least == nullptr) return "";
  return formatted("%s allows %.2f cores, which took %.0f %% of the time", least->folder.c_str(), *least->processors,
                   100.0 * taken);
}

std::string fewer_cores(const Case& c) {
  if (c.now.cores >= c.saved->cores || !c.is_of_all_cores()) return "";
  return changed("allowed cores: " + std::to_string(c.now.cores), std::to_string(c.saved->cores));
}

// A quota makes its threads wait for a core as well.
std::string another_process(const Case& c) {
  const TakenTime &taken = c.figure.taken, before = c.taken_before();
  const double delay = taken.delay - taken.throttled - (before.delay - before.throttled);
  // The kernel counts the time of others in ticks, of which a short figure may see none.
  const bool sees_others = taken.others >= kMuch;
  if (delay < kMuch || (!sees_others && c.now.neighbour.empty())) return "";
  return "waited " + percent(taken.delay) + " of its time for a core" +
         (sees_others ? "; other processes used " + percent(taken.others) + " of it" : "") +
         (c.now.neighbour.empty() ? "" : "; the busiest during the bring-up was " + c.now.neighbour);
}

std::string steal(const Case& c) {
  if (c.figure.taken.stolen - c.taken_before().stolen < kMuch) return "";
  return "the hypervisor took " + percent(c.figure.taken.stolen) + " of its time for other virtual machines";
}

std::string sibling(const Case& c) {
  constexpr double kBusy = 0.2;
  if (c.figure.taken.siblings - c.taken_before().siblings < kBusy) return "";
  return "the other hardware threads of its cores were busy for " + percent(c.figure.taken.siblings) + " of the time";
}

std::string governor(const Case& c) {
  for (const CoreFacts& core : c.now.machine.cores) {
    for (const CoreFacts& was : c.saved->machine.cores) {
      if (core.number != was.number) continue;
      const std::string differs = difference(core.governor, was.governor);
      if (!differs.empty()) return "core " + std::to_string(core.number) + ": " + differs;
    }
  }
  return "";
}

// The clock is measured: on a virtual machine the kernel does not know it.
std::string low_frequency(const Case& c) {
  for (const Figure& clock : c.now.figures) {
    const Figure* const was = clock.item == "clock" ? find_figure(*c.saved, clock.key()) : nullptr;
    if (was == nullptr || (!c.is_of_all_cores() && c.figure.place != clock.place)) continue;
    if (clock.best() < (1.0 - kMuch) * was->median())
      return clock.place + " runs at " + formatted("%.2f GHz, %.2f in the profile", clock.best(), was->median());
  }
  return "";
}

std::string thermal(const Case& c) {
  for (const Counters::Core& core : c.now.machine.counters.cores) {
    for (const Counters::Core& before : c.now.before.cores) {
      if (core.number == before.number && core.throttles && before.throttles && *core.throttles > *before.throttles)
        return "core " + std::to_string(core.number) + " was throttled " +
               count_of(*core.throttles - *before.throttles, "time") + " for its heat";
    }
  }
  return "";
}

std::string remote_memory(const Case& c) {
  std::set<std::int64_t> near;
  const std::vector<std::int64_t> own = numbers_of_list(c.now.machine.process.cores);
  for (const NodeFacts& node : c.now.machine.nodes) {
    for (const std::int64_t core : numbers_of_list(node.cores)) {
      if (std::find(own.begin(), own.end(), core) != own.end()) near.insert(node.number);
    }
  }
  double all = 0.0, far = 0.0;
  for (const ProcessFacts::Node& node : c.now.machine.process.pages) {
    all += static_cast<double>(node.pages);
    if (near.count(node.number) == 0) far += static_cast<double>(node.pages);
  }
  if (!near.empty() && all > 0.0 && far >= 2 * kMuch * all)
    return percent(far / all) + " of the memory lies at a NUMA node whose cores are not used";
  const double share = c.now.far_share.value_or(0.0);
  if (share < 2 * kMuch || (c.saved != nullptr && c.saved->far_share.value_or(0.0) >= 2 * kMuch)) return "";
  return percent(share) + " of the arena that a rank on the cores of one NUMA node would have lies at other nodes";
}

std::string channels(const Case& c) {
  const MemoryFacts& now = c.now.machine.memory;
  if (!now.channels || !now.channels_filled || *now.channels_filled >= *now.channels) return "";
  if (c.saved != nullptr && c.saved->machine.memory.channels_filled.value_or(0) <= *now.channels_filled) return "";
  return std::to_string(*now.channels_filled) + " of " + std::to_string(*now.channels) +
         " memory channels have a module" +
         (c.saved != nullptr ? ", " + std::to_string(*c.saved->machine.memory.channels_filled) + " in the profile"
                             : "");
}

std::string no_huge_pages(const Case& c) {
  constexpr double kMost = 0.5;
  const double now = c.now.huge_share.value_or(1.0);
  const double was = c.saved != nullptr ? c.saved->huge_share.value_or(0.0) : 1.0;
  if (now >= kMost || was < kMost) return "";
  return percent(now) + " of the memory is in large pages" +
         (c.saved != nullptr ? ", " + percent(was) + " in the profile" : "") +
         " (transparent_hugepage/enabled: " + known(c.now.machine.memory.transparent) + ")";
}

std::string memlock(const Case& c) {
  const ProcessFacts& now = c.now.machine.process;
  if (now.may_lock_all.value_or(true) || now.locked_bytes.value_or(kUnlimited) == kUnlimited) return "";
  if (c.saved != nullptr) {
    const ProcessFacts& was = c.saved->machine.process;
    if (!was.may_lock_all.value_or(false) && was.locked_bytes.value_or(0) <= *now.locked_bytes) return "";
  }
  return "this process may lock " + std::to_string(*now.locked_bytes >> 10) + " KiB";
}

std::string swap(const Case& c) {
  constexpr std::int64_t kPages = 256;
  const Fact &before = c.now.before.pages_swapped, &after = c.now.machine.counters.pages_swapped;
  if (!before || !after || *after - *before < kPages) return "";
  return std::to_string(*after - *before) + " pages were swapped meanwhile";
}

std::string clock_source(const Case& c) {
  return difference(c.now.machine.kernel.clock_source, c.saved->machine.kernel.clock_source);
}

std::string slow_fsync(const Case& c) {
  for (const Figure& sync : c.now.figures) {
    const Figure* const was = sync.item == "disk" && sync.unit == "ms" ? find_figure(*c.saved, sync.key()) : nullptr;
    if (was != nullptr && sync.best() > 2.0 * was->median())
      return formatted("fsync takes %.3g ms, %.3g in the profile", sync.median(), was->median());
  }
  return "";
}

std::string microcode(const Case& c) {
  return difference(c.now.machine.processor.microcode, c.saved->machine.processor.microcode);
}

std::string kernel(const Case& c) {
  const KernelFacts &now = c.now.machine.kernel, &was = c.saved->machine.kernel;
  const std::string release = difference(now.release, was.release);
  return release.empty() ? difference(now.build, was.build) : release;
}

std::string mitigations(const Case& c) {
  for (const auto& now : c.now.machine.kernel.mitigations) {
    for (const auto& was : c.saved->machine.kernel.mitigations) {
      if (now.name == was.name && now.state != was.state)
        return now.name + ": " + changed("\"" + now.state + "\"", "\"" + was.state + "\"");
    }
  }
  return "";
}

std::string debug_build(const Case& c) {
  if (c.now.optimised || (c.saved != nullptr && !c.saved->optimised)) return "";
  return "this program was built without optimisation";
}

bool any(const Case&) { return true; }
bool locks(const Case& c) { return c.figure.unit == "MiB"; }
bool takes_time(const Case& c) { return !locks(c); }  // so others can take time from it
bool computes(const Case& c) { return takes_time(c) && !c.is("disk"); }
bool uses_memory(const Case& c) {
  return c.is("memory") || c.is("latency") || c.is("kernels") || c.is("allreduce") || c.is("pages");
}
bool touches_memory(const Case& c) { return computes(c) && !c.is("clock"); }
bool writes(const Case& c) { return c.is("disk"); }

struct Entry {
  const char* name;
  bool (*concerns)(const Case&);
  std::string (*evidence)(const Case&);  // "": none
  const char* remedy;
  bool compares = false;  // with a profile
};

constexpr Entry kTable[] = {
    {"quota", takes_time, quota, "raise the control group's quota (cpu.max, cpu.cfs_quota_us)"},
    {"fewer cores", computes, fewer_cores, "give the process all cores (taskset, cpuset, AllowedCPUs)", true},
    {"another process", takes_time, another_process, "stop it, or keep it off these cores"},
    {"steal", takes_time, steal, "ask for dedicated cores, or move the virtual machine"},
    {"SMT sibling", computes, sibling, "keep other work off the sibling cores, or switch SMT off"},
    {"governor", computes, governor, "set the governor to performance (cpupower frequency-set -g performance)", true},
    {"low frequency", computes, low_frequency, "look at the limits of power and frequency in firmware and cpufreq",
     true},
    {"thermal throttling", computes, thermal, "look at cooling"},
    {"remote memory", uses_memory, remote_memory,
     "free memory of that node, or run where memory is (numactl --hardware; --cpunodebind, --membind)"},
    {"missing memory channels", uses_memory, channels, "put a module in each channel; look for one that failed"},
    {"no huge pages", touches_memory, no_huge_pages,
     "write madvise or always to /sys/kernel/mm/transparent_hugepage/enabled"},
    {"memlock", locks, memlock, "raise the limit of locked memory (ulimit -l, LimitMEMLOCK)"},
    {"swap", touches_memory, swap, "free memory, or switch swap off"},
    {"clock source", takes_time, clock_source, "choose tsc as the clock source", true},
    {"slow fsync", writes, slow_fsync, "look at the disk and its write cache", true},
    {"changed microcode", computes, microcode, "save a new profile if the change is meant", true},
    {"changed kernel", any, kernel, "save a new profile if the change is meant", true},
    {"changed mitigations", any, mitigations, "save a new profile if the change is meant", true},
    {"debug build", takes_time, debug_build, "build with --buildtype=release"},
};

// How far a figure moves from run to run on an undisturbed machine, and more: what lies in memory moves with its place
// there, what the disk does with what it did before.
struct Tolerance {
  const char* item;
  double share;
  bool follows_clock;  // a clock that moves moves this figure as much
};
constexpr Tolerance kTolerances[] = {{"clock", 0.04, true},   {"products", 0.08, true}, {"jpeg", 0.08, true},
                                     {"kernels", 0.25, true}, {"memory", 0.25, false},  {"allreduce", 0.25, false},
                                     {"latency", 0.3, false}, {"pages", 0.5, false},    {"disk", 0.6, false}};

double tolerance_of(const Figure& figure, double clock_swing) {
  for (const Tolerance& tolerance : kTolerances) {
    if (figure.item == tolerance.item) return tolerance.share + (tolerance.follows_clock ? clock_swing : 0.0);
  }
  return 0.25;
}

// How far any core's clock was from the middle of its range between the rounds of one run, as a share of its median:
// about 0.01 on a server of one's own, 0.1 in a virtual machine whose neighbours take turns at the processor's power.
// Rounds from which other processes took time do not show the clock, and no clock moves by more than kMost: a wider
// tolerance would find nothing slower.
double clock_swing(const BringUp& run) {
  constexpr double kMost = 0.5;
  double swing = 0.0;
  for (const Figure& figure : run.figures) {
    if (figure.item != "clock" || figure.median() <= 0.0) continue;
    if (figure.taken.share() >= kMuch) continue;
    swing = std::max(swing, 0.5 * std::abs(figure.best() - figure.worst()) / figure.median());
  }
  return std::min(swing, kMost);
}

// Speeds, so that more is better for all.
double speed(const Figure& figure, double value) {
  return figure.more_is_better ? value : value > 0.0 ? 1.0 / value : 0.0;
}

FigureJudgement judge_figure(const Figure& figure, const Figure& was, double tolerance) {
  const double now = speed(figure, figure.median()), before = speed(was, was.median());
  const double best = speed(figure, figure.best()), worst = speed(figure, figure.worst());
  FigureJudgement judgement;
  judgement.verdict = Verdict::kOk;
  if (before <= 0.0) return now > 0.0 ? FigureJudgement{Verdict::kFaster, 0.0, {}} : judgement;
  judgement.change = now / before - 1.0;
  const bool is_of_time = figure.unit != "MiB";  // how much may be locked does not depend on how long it took
  const double taken = is_of_time ? figure.taken.share() - was.taken.share() : 0.0;
  const double by_quota = figure.taken.throttled - was.taken.throttled;
  if (now < before * (1.0 - tolerance) && taken >= kMuch && by_quota < 0.5 * taken) {
    judgement.verdict = Verdict::kDisturbed;
  } else if (now < before * (1.0 - tolerance) && (by_quota >= kMuch || best < before * (1.0 - tolerance)) &&
             best < speed(was, was.worst())) {
    judgement.verdict = Verdict::kSlower;
  } else if (worst > before * (1.0 + tolerance) && worst > speed(was, was.best())) {
    judgement.verdict = Verdict::kFaster;
  }
  return judgement;
}

}  // namespace

std::vector<Cause> causes_of(const Figure& figure, const BringUp& now, const Figure* was, const BringUp* saved) {
  const Case c{figure, now, was, saved};
  std::vector<Cause> causes;
  for (const Entry& entry : kTable) {
    if (!entry.concerns(c) || (entry.compares && saved == nullptr)) continue;
    std::string evidence = entry.evidence(c);
    if (!evidence.empty()) causes.push_back({entry.name, std::move(evidence), entry.remedy});
  }
  return causes;
}

std::vector<Cause> known_causes() {
  std::vector<Cause> causes;
  for (const Entry& entry : kTable) causes.push_back({entry.name, "", entry.remedy});
  return causes;
}

Cause lost_time(const Figure& figure) {
  return {"lost time", percent(figure.taken.share()) + " of its time was taken; the kernel does not count by whom",
          "measure again when nothing else runs on this machine or its host"};
}

const char* verdict_name(Verdict verdict) {
  constexpr const char* kNames[] = {"ok", "slower", "faster", "disturbed", "unknown"};
  return kNames[static_cast<int>(verdict)];
}

std::vector<FigureJudgement> judge(const BringUp& now, const BringUp& saved) {
  std::vector<FigureJudgement> judgements;
  const double swing = std::max(clock_swing(now), clock_swing(saved));
  for (const Figure& figure : now.figures) {
    const Figure* const was = find_figure(saved, figure.key());
    FigureJudgement judgement;
    if (was != nullptr && !was->rounds.empty() && !figure.rounds.empty())
      judgement = judge_figure(figure, *was, tolerance_of(figure, swing));
    if (judgement.verdict == Verdict::kSlower || judgement.verdict == Verdict::kDisturbed)
      judgement.causes = causes_of(figure, now, was, &saved);
    if (judgement.verdict == Verdict::kDisturbed && judgement.causes.empty()) judgement.causes = {lost_time(figure)};
    judgements.push_back(std::move(judgement));
  }
  return judgements;
}

bool is_as_recorded(const BringUp& now, const std::vector<FigureJudgement>& judgements) {
  return now.bits.wrong.empty() && !now.bits.none_as_recorded &&
         std::none_of(judgements.begin(), judgements.end(),
                      [](const FigureJudgement& one) { return one.verdict == Verdict::kSlower; });
}

}  // namespace bascule
