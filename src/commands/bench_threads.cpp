// SPDX-License-Identifier: Apache-2.0
#include "src/commands/bench_figures.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <utility>

#include "src/base/readable.h"
#include "src/runtime/simulation.h"

namespace bascule {
namespace {

constexpr int kSocketCores = 32;
constexpr double kSocketGigabytes = 300.0;  // a second
constexpr std::size_t kShownKinds = 8;

// Of all steps that were measured, a mean: without the operations. Not below 0, as operations were also measured in the
// warm-up, whose first replays may take longer.
double outside_operations(const MeasuredSteps& steps, double batches) {
  double seconds =
      std::accumulate(steps.seconds.begin(), steps.seconds.end(), 0.0) / static_cast<double>(steps.seconds.size());
  for (const NodeTime& node : steps.nodes) seconds -= batches * node.seconds / static_cast<double>(steps.micro_batches);
  return std::max(0.0, seconds);
}

// For so many bytes, which one thread reads and writes in so long.
double seconds_of_memory(double bytes, double one_thread_seconds, const MemoryRate& memory) {
  const double seconds = bytes * 1e-9 / memory.gigabytes_per_second;
  if (memory.one_thread == 0.0 || bytes == 0.0) return seconds;
  // How much faster than memory one thread is: caches supply the rest.
  return seconds / std::max(1.0, bytes * 1e-9 / (one_thread_seconds * memory.one_thread));
}

// Returns how much longer this makes one replay.
double limit_nodes(std::vector<NodeTime>* nodes, double replays, const MemoryRate& memory) {
  double more = 0.0;
  for (NodeTime& node : *nodes) {
    const double waits =
        std::max(0.0, seconds_of_memory(node.bytes, node.work_seconds / replays, memory) - node.seconds / replays);
    node.memory_seconds = waits * replays;
    node.seconds += node.memory_seconds;
    more += waits;
  }
  return more;
}

}  // namespace

MachineLimits limits_of_server(const MachineLimits& one_thread, int threads) {
  MachineLimits limits = one_thread;
  limits.float32_gflops_per_second *= threads;
  limits.bf16_gflops_per_second *= threads;
  // Of a few threads each has more than its share, as one alone has here.
  const double share = kSocketGigabytes * threads / kSocketCores;
  limits.gigabytes_per_second = std::max(share, one_thread.gigabytes_per_second);
  limits.read_gigabytes_per_second = std::max(share, one_thread.read_gigabytes_per_second);
  return limits;
}

void limit_by_memory(MeasuredSteps* steps, double batches, double update_bytes, int threads, const MemoryRate& memory) {
  double more = 0.0;  // of a step
  if (update_bytes > 0.0) {
    const double update = outside_operations(*steps, batches);  // whose tasks are as many as the threads, or far more
    more += std::max(0.0, seconds_of_memory(update_bytes, update * threads, memory) - update);
  }
  more += batches * limit_nodes(&steps->nodes, static_cast<double>(steps->micro_batches), memory);
  for (double& seconds : steps->seconds) seconds += more;
}

void limit_by_memory(MeasuredStage* stage, const MemoryRate& memory) {
  const double more = limit_nodes(&stage->nodes, static_cast<double>(stage->replays), memory);
  for (double& seconds : stage->seconds) seconds += more;
}

void share_cores_with_loader(MeasuredSteps* steps, int threads) {
  for (std::size_t i = 0; i < steps->seconds.size(); ++i)
    steps->seconds[i] += steps->loading_seconds * static_cast<double>(steps->samples[i]) / threads;
}

std::vector<LostTime> lost_time(const std::vector<NodeTime>& nodes, double replays, int threads) {
  std::map<std::string, LostTime> by_kind;
  for (const NodeTime& node : nodes) {
    LostTime& lost = by_kind[node.kind];
    lost.name = node.kind;
    const double all = node.seconds - node.work_seconds / threads;
    lost.seconds += all / replays;
    lost.few_tasks += node.few_tasks_seconds / replays;
    lost.barrier += node.barrier_seconds / replays;
    lost.memory += node.memory_seconds / replays;
    lost.last_tasks += (all - node.few_tasks_seconds - node.barrier_seconds - node.memory_seconds) / replays;
  }
  std::vector<LostTime> sorted;
  sorted.reserve(by_kind.size());
  for (auto& [name, lost] : by_kind) sorted.push_back(std::move(lost));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const LostTime& a, const LostTime& b) { return a.seconds > b.seconds; });
  return sorted;
}

std::string simulated_speed_text(int threads, double rate, double ceiling, const char* unit) {
  return "\n" + count_of(threads, "thread") + ", simulated: " + readable_number(rate) + " " + unit + ", " +
         readable_percent(rate / ceiling) + " of the ceiling, " + readable_number(ceiling) + "\n";
}

std::string lost_text(const std::vector<LostTime>& lost, const char* replay, int threads) {
  if (lost.empty()) return "";
  std::string text =
      formatted("\n%-26s %13s %13s %13s %13s %13s\n", (std::string("lost by ") + replay + ", ms").c_str(), "all",
                "few tasks", "last tasks", "barrier", "memory");
  for (std::size_t i = 0; i < std::min(lost.size(), kShownKinds); ++i) {
    const LostTime& kind = lost[i];
    text += formatted("  %-24s %13.3f %13.3f %13.3f %13.3f %13.3f\n", kind.name.c_str(), 1e3 * kind.seconds,
                      1e3 * kind.few_tasks, 1e3 * kind.last_tasks, 1e3 * kind.barrier, 1e3 * kind.memory);
  }
  return text + formatted(
                    "  simulated: the tasks of %s, measured one after another and dealt to threads that do "
                    "not slow each other down;\n"
                    "  assumed: a core for each, %.1f us until all have noticed the end of a step, %.0f million "
                    "tasks dealt a second by a group, and for more threads than this machine has cores %.0f GB/s for "
                    "each %d cores\n",
                    count_of(threads, "thread").c_str(),
                    1e-3 * static_cast<double>(SimulatedThreads{threads}.barrier_ns()),
                    1e3 / static_cast<double>(SimulatedThreads::kDealNs), kSocketGigabytes, kSocketCores);
}

Json lost_json(const std::vector<LostTime>& lost) {
  Json all = Json::array();
  for (const LostTime& kind : lost) {
    all.push_back({{"name", kind.name},
                   {"seconds", kind.seconds},
                   {"few_tasks_seconds", kind.few_tasks},
                   {"last_tasks_seconds", kind.last_tasks},
                   {"barrier_seconds", kind.barrier},
                   {"memory_seconds", kind.memory}});
  }
  return all;
}

}  // namespace bascule
