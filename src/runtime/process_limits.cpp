// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/process_limits.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

namespace bascule {
namespace {

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

// Nothing for "max", "unlimited" and anything else that is no number.
std::optional<unsigned long long> number_in(const std::string& text) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  return std::strtoull(text.c_str(), nullptr, 10);
}

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
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
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

// This process's group in the hierarchy that has the controller (version 1), or in the one of version 2 (controller
// "").
std::optional<std::string> group_of(const std::string& root, const std::string& controller) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "4:cpu,cpuacct:/a/b"
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const bool is_it = controller.empty() ? line.substr(0, first) == "0" && names.empty() : lists(names, controller);
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

// Every level of this process's groups of either version: calls see(folder, is_version_2).
template <typename See>
void visit_groups(const std::string& root, const std::string& controller, const See& see) {
  for (const Mount& mount : group_mounts(root)) {
    const bool is_2 = mount.type == "cgroup2";
    if (!is_2 && !lists(mount.controllers, controller)) continue;
    const std::optional<std::string> group = group_of(root, is_2 ? "" : controller);
    if (!group) continue;
    for (const std::string& folder : levels_of(mount, *group)) see(folder, is_2);
  }
}

void read_memory(const std::string& root, ProcessLimits* limits) {
  std::ifstream file(root + "/proc/meminfo");
  for (std::string name, line; file >> name && std::getline(file, line);) {
    if (name != "MemTotal:") continue;
    limits->memory_bytes = static_cast<std::size_t>(std::strtoull(line.c_str(), nullptr, 10)) * 1024;
    break;
  }
  visit_groups(root, "memory", [&](const std::string& folder, bool is_2) {
    const std::string path = folder + (is_2 ? "/memory.max" : "/memory.limit_in_bytes");
    const auto bytes = number_in(first_line(root + path).value_or(""));
    if (!bytes || *bytes >= limits->memory_bytes) return;
    limits->memory_bytes = static_cast<std::size_t>(*bytes);
    limits->memory_owner = path;
  });
}

void read_processors(const std::string& root, ProcessLimits* limits) {
  visit_groups(root, "cpu", [&](const std::string& folder, bool is_2) {
    std::string quota, period;
    if (is_2) {
      std::istringstream(first_line(root + folder + "/cpu.max").value_or("")) >> quota >> period;
    } else {
      quota = first_line(root + folder + "/cpu.cfs_quota_us").value_or("");  // -1: none
      period = first_line(root + folder + "/cpu.cfs_period_us").value_or("");
    }
    const auto time = number_in(quota), of = number_in(period);
    if (!time || !of || *of == 0) return;
    limits->processors = std::min(limits->processors, static_cast<double>(*time) / static_cast<double>(*of));
  });
}

void read_own(const std::string& root, ProcessLimits* limits) {
  std::ifstream file(root + "/proc/self/limits");
  for (std::string line; std::getline(file, line);) {  // name, soft limit, hard limit, unit
    const auto take = [&](std::string_view name, std::size_t* bytes) {
      if (line.compare(0, name.size(), name) != 0) return;
      std::string soft;
      std::istringstream(line.substr(name.size())) >> soft;
      if (const auto number = number_in(soft)) *bytes = static_cast<std::size_t>(*number);
    };
    take("Max address space", &limits->address_bytes);
    take("Max data size", &limits->data_bytes);
    take("Max stack size", &limits->stack_bytes);
  }
  std::ifstream status(root + "/proc/self/status");
  for (std::string name, line; status >> name && std::getline(status, line);) {
    const auto bytes = [&] { return static_cast<std::size_t>(std::strtoull(line.c_str(), nullptr, 10)) * 1024; };
    if (name == "VmSize:") limits->address_bytes_used = bytes();
    if (name == "VmData:") limits->data_bytes_used = bytes();
  }
}

}  // namespace

ProcessLimits read_process_limits(const std::string& root) {
  ProcessLimits limits;
  read_memory(root, &limits);
  read_processors(root, &limits);
  read_own(root, &limits);
  return limits;
}

int threads_within(const ProcessLimits& limits, int cores, int processes) {
  const double share = std::floor(limits.processors / processes + 1e-9);
  return std::max(1, static_cast<int>(std::min(static_cast<double>(cores), share)));
}

}  // namespace bascule
