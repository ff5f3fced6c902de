// SPDX-License-Identifier: Apache-2.0
#include "src/machine/process_limits.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "src/machine/fact_files.h"
#include "src/machine/machine.h"

namespace bascule {
namespace {

void set_limit(const Fact& limit, std::size_t* bytes) {
  if (limit && *limit != kUnlimited) *bytes = static_cast<std::size_t>(*limit);
}

}  // namespace

ProcessLimits read_process_limits(const std::string& root) {
  ProcessLimits limits;
  set_limit(read_memory(root).bytes, &limits.memory_bytes);
  for (const GroupFacts& group : read_groups(root)) {
    if (group.processors) limits.processors = std::min(limits.processors, *group.processors);
    if (!group.memory_bytes || static_cast<std::size_t>(*group.memory_bytes) >= limits.memory_bytes) continue;
    limits.memory_bytes = static_cast<std::size_t>(*group.memory_bytes);
    limits.memory_owner = group.folder + (group.version == 2 ? "/memory.max" : "/memory.limit_in_bytes");
  }
  const ProcessFacts own = read_process(root);
  set_limit(own.address_bytes, &limits.address_bytes);
  set_limit(own.data_bytes, &limits.data_bytes);
  set_limit(own.stack_bytes, &limits.stack_bytes);
  set_limit(own.address_bytes_used, &limits.address_bytes_used);
  set_limit(own.data_bytes_used, &limits.data_bytes_used);
  return limits;
}

int threads_within(const ProcessLimits& limits, int cores, int processes) {
  const double share = std::floor(limits.processors / processes + 1e-9);
  return std::max(1, static_cast<int>(std::min(static_cast<double>(cores), share)));
}

namespace {

bool lists(const std::string& names, const std::string& name) {
  return ("," + names + ",").find("," + name + ",") != std::string::npos;
}

// "\040" stands for a space in mountinfo.
std::string unescaped(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out += static_cast<char>(std::strtol(text.substr(i + 1, 3).c_str(), nullptr, 8));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

struct Mount {
  std::string root;   // the part of the hierarchy that is mounted
  std::string point;  // where
  std::string type;   // "cgroup" or "cgroup2"
  std::string controllers;
};

std::vector<Mount> group_mounts(const std::string& root) {
  std::vector<Mount> mounts;
  for (const std::string& line : lines_of(whole_text(root + "/proc/self/mountinfo"))) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    Mount mount;
    std::string ignored;
    std::istringstream before(line.substr(0, dash)), behind(line.substr(dash + 3));
    before >> ignored >> ignored >> ignored >> mount.root >> mount.point;
    behind >> mount.type >> ignored >> mount.controllers;
    if (mount.type != "cgroup" && mount.type != "cgroup2") continue;
    mount.root = unescaped(mount.root);
    mount.point = unescaped(mount.point);
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

// This process's group in the hierarchy that has one of the controllers (version 1), or in the one of version 2.
std::optional<std::string> group_of(const std::vector<std::string>& groups, const Mount& mount) {
  for (const std::string& line : groups) {  // "4:cpu,cpuacct:/a/b"
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    std::istringstream all(names);
    bool is_it = mount.type == "cgroup2" && names.empty() && line.substr(0, first) == "0";
    for (std::string name; mount.type == "cgroup" && std::getline(all, name, ',');)
      is_it = is_it || lists(mount.controllers, name);
    if (is_it) return line.substr(second + 1);
  }
  return std::nullopt;
}

// The folders of a group and of all groups above it, as far as they are mounted. A container may have mounted its own
// group as the top, under whatever name it has outside.
std::vector<std::string> levels_of(const Mount& mount, const std::string& group) {
  std::string below = group;
  if (mount.root != "/") {
    const bool is_inside = group.compare(0, mount.root.size(), mount.root) == 0 &&
                           (group.size() == mount.root.size() || group[mount.root.size()] == '/');
    below = is_inside ? group.substr(mount.root.size()) : "";
  }
  if (below.find("/..") != std::string::npos) below = "";
  while (!below.empty() && below.back() == '/') below.pop_back();
  std::vector<std::string> levels;
  for (;; below.erase(below.rfind('/'))) {
    levels.push_back(mount.point + below);
    if (below.find('/') == std::string::npos) return levels;
  }
}

Fact bytes_unless_unlimited(const Fact& bytes) {
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 62;  // version 1 rounds it down to pages
  return bytes && *bytes >= kNoLimit ? Fact() : bytes;
}

std::optional<double> quota_of(const std::string& folder, bool is_version_2) {
  TextFact quota, period;
  if (is_version_2) {
    const std::vector<std::string> words = words_of(text_in(folder + "/cpu.max").value_or(""));  // "60000 100000"
    if (words.size() < 2) return std::nullopt;
    quota = words[0];
    period = words[1];
  } else {
    quota = text_in(folder + "/cpu.cfs_quota_us");  // -1: none
    period = text_in(folder + "/cpu.cfs_period_us");
  }
  const Fact time = number_of(quota), of = number_of(period);
  if (!time || !of || *of == 0) return std::nullopt;
  return static_cast<double>(*time) / static_cast<double>(*of);
}

}  // namespace

bool GroupFolder::has(const std::string& controller) const { return is_version_2 || lists(controllers, controller); }

std::vector<GroupFolder> group_folders(const std::string& root) {
  const std::vector<std::string> groups = lines_of(whole_text(root + "/proc/self/cgroup"));
  std::vector<GroupFolder> folders;
  for (const Mount& mount : group_mounts(root)) {
    const std::optional<std::string> group = group_of(groups, mount);
    if (!group) continue;
    const bool is_2 = mount.type == "cgroup2";
    for (std::string& folder : levels_of(mount, *group))
      folders.push_back({std::move(folder), is_2, is_2 ? "" : mount.controllers});
  }
  return folders;
}

std::vector<GroupFacts> read_groups(const std::string& root) {
  std::vector<GroupFacts> groups;
  for (const GroupFolder& at : group_folders(root)) {
    if (!at.has("cpu") && !at.has("cpuset") && !at.has("memory")) continue;
    const std::string folder = root + at.folder;
    GroupFacts group;
    group.folder = at.folder;
    group.version = at.is_version_2 ? 2 : 1;
    if (at.has("cpu")) group.processors = quota_of(folder, at.is_version_2);
    if (at.has("cpuset")) {
      group.cores = text_in(folder + (at.is_version_2 ? "/cpuset.cpus.effective" : "/cpuset.effective_cpus"));
      if (!group.cores && !at.is_version_2) group.cores = text_in(folder + "/cpuset.cpus");
    }
    if (at.has("memory"))
      group.memory_bytes =
          bytes_unless_unlimited(number_in(folder + (at.is_version_2 ? "/memory.max" : "/memory.limit_in_bytes")));
    groups.push_back(std::move(group));
  }
  return groups;
}

namespace {

// A share of one core. Each process of an idle machine (the kernel's threads, its journal, monitoring) uses less than
// 1 %, and the tick of 10 ms in which time is counted is 0.1 % of a short bring-up: 3 % is well beyond both. A process
// that takes 5 % of a core from the figures throughout uses more; one that used less may have delayed one figure, but
// nothing shows that.
constexpr double kHousekeeping = 0.03;

}  // namespace

// "1234 (a name) S 1 ...": user and system time, in ticks, are the 12th and 13th words behind the name; those of
// children that have ended are the next two.
std::vector<ProcessTime> read_process_times(const std::string& root) {
  const std::int64_t tick_ms = 1000 / sysconf(_SC_CLK_TCK);
  std::vector<ProcessTime> processes;
  for (const std::int64_t number : numbered_entries(root + "/proc", "")) {
    const std::string line = text_in(root + "/proc/" + std::to_string(number) + "/stat").value_or("");
    const std::size_t open = line.find('('), close = line.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close < open) continue;
    const std::vector<std::string> words = words_of(line.substr(close + 1));
    if (words.size() < 15) continue;
    Fact ticks;
    for (const std::size_t word : {11u, 12u, 13u, 14u}) ticks = sum_of(ticks, number_of(words[word]));
    const std::int64_t parent = number_of(words[1]).value_or(0);
    if (ticks) processes.push_back({number, line.substr(open + 1, close - open - 1), *ticks * tick_ms, parent});
  }
  return processes;
}

std::string busiest_process(const std::vector<ProcessTime>& before, const std::vector<ProcessTime>& after,
                            std::int64_t own, double seconds) {
  std::map<std::int64_t, std::int64_t> used_before, parents;
  std::set<std::int64_t> alive;
  for (const ProcessTime& process : after) alive.insert(process.number);
  for (const ProcessTime& process : before) parents[process.number] = process.parent;
  for (const ProcessTime& process : before) {
    // The time that an ended process used before now counts as that of its next ancestor that is alive.
    std::int64_t counted_by = process.number;
    while (alive.count(counted_by) == 0 && parents.count(counted_by) > 0) counted_by = parents[counted_by];
    used_before[counted_by] += process.cpu_ms;
  }
  const ProcessTime* busiest = nullptr;
  auto most = static_cast<std::int64_t>(kHousekeeping * 1000.0 * seconds);
  for (const ProcessTime& process : after) {
    const std::int64_t used = process.cpu_ms - used_before[process.number];
    if (process.number == own || used <= most) continue;
    most = used;
    busiest = &process;
  }
  return busiest == nullptr ? "" : busiest->name + " (process " + std::to_string(busiest->number) + ")";
}

}  // namespace bascule
