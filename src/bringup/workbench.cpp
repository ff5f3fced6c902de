// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/workbench.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/futex.h"
#include "src/base/mapped_memory.h"

namespace bascule {
namespace {

struct Shared {
  std::int64_t count;
  const std::function<void(std::int64_t task, int thread)>& run;

  static std::int64_t tasks(const void* shared, const Replay&) { return static_cast<const Shared*>(shared)->count; }
  static void run_task(const void* shared, const Replay&, std::int64_t task, int thread) {
    static_cast<const Shared*>(shared)->run(task, thread);
  }
};

std::vector<int> allowed_cores() {
  cpu_set_t allowed;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {0};
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  return cores;
}

}  // namespace

void share_work(Threads& threads, std::int64_t tasks, const std::function<void(std::int64_t task, int thread)>& run) {
  const Shared shared{tasks, run};
  const Step step{Shared::run_task, Shared::tasks, &shared, 0};
  threads.replay(Span<const Step>(&step, 1), Replay{}, {});
}

Workbench::Workbench(Isa isa, std::string folder, std::size_t memory_bytes)
    : cores_(allowed_cores()),
      isa_(isa),
      folder_(std::move(folder)),
      threads_(core_count(), true),
      memory_bytes_(memory_bytes) {
  memory_ = map_memory(memory_bytes_, HugePages::kTransparent);
  if (memory_ == nullptr) {
    throw Error(ErrorKind::kMemory, "bringup", "the system refuses " + std::to_string(memory_bytes_ >> 20) + " MiB",
                "free memory, or raise the limit of this process (ulimit -v)");
  }
  constexpr std::size_t kPart = std::size_t{8} << 20;
  share(static_cast<std::int64_t>(memory_bytes_ / kPart),
        [this](std::int64_t task, int) { std::memset(memory_ + static_cast<std::size_t>(task) * kPart, 1, kPart); });
}

Workbench::~Workbench() { munmap(memory_, memory_bytes_); }

void Workbench::move_to(int core) noexcept {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(core), &one);
  sched_setaffinity(0, sizeof one, &one);  // refused: Threads has said so, and figures are of wherever it runs
}

void Workbench::share(std::int64_t tasks, const std::function<void(std::int64_t task, int thread)>& run) {
  share_work(threads_, tasks, run);
}

// Threads take tasks as they come, and one may come too late for any: here nobody leaves before all have one.
void Workbench::on_each_core(const std::function<void(int)>& run) {
  move_to(cores_.front());
  std::atomic<int> come{0};
  share(core_count(), [&](std::int64_t, int thread) {
    come.fetch_add(1);
    while (come.load() < core_count()) spin_pause();
    run(thread);
  });
}

double seconds_of(const Workbench& bench, const std::function<void()>& work) {
  const double began = monotonic_seconds();
  double taken = 0.0;
  for (int calls = 1;; ++calls) {
    work();
    taken = monotonic_seconds() - began;
    if (taken + 0.5 * taken / calls >= bench.seconds()) return taken / calls;
  }
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

Probe& Item::probe(std::string name, const std::string& unit, int core, std::function<double()> once) {
  probes.push_back({std::move(name),
                    core < 0 ? "all cores" : "core " + std::to_string(core),
                    unit,
                    unit != "ns" && unit != "ms",
                    core,
                    false,
                    std::move(once),
                    {}});
  return probes.back();
}

const std::vector<ItemKind>& item_kinds() {
  static const std::vector<ItemKind> kinds = {
      {"clock", make_clock_item},     {"products", make_product_item}, {"memory", make_memory_item},
      {"latency", make_latency_item}, {"pages", make_page_item},       {"disk", make_disk_item},
      {"jpeg", make_jpeg_item},       {"kernels", make_kernel_item},   {"allreduce", make_reduction_item}};
  return kinds;
}

}  // namespace bascule
