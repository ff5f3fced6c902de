// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/workbench.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <utility>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/futex.h"
#include "src/base/memory_nodes.h"

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

MappedMemory map_or_refuse(std::size_t bytes) {
  MappedMemory memory(map_memory(bytes, HugePages::kTransparent), Unmap{bytes});
  if (memory != nullptr) return memory;
  throw Error(ErrorKind::kMemory, "bringup", "the system refuses " + std::to_string(bytes >> 20) + " MiB",
              "free memory, or raise the limit of this process (ulimit -v)");
}

}  // namespace

void share_work(Threads& threads, std::int64_t tasks, const std::function<void(std::int64_t task, int thread)>& run) {
  const Shared shared{tasks, run};
  const Step step{Shared::run_task, Shared::tasks, &shared, 0};
  threads.replay(Span<const Step>(&step, 1), Replay{}, {});
}

Workbench::Workbench(Isa isa, std::string folder, std::size_t memory_bytes, const std::vector<CoreFacts>& facts)
    : cores_(cores_of_process()),
      isa_(isa),
      folder_(std::move(folder)),
      threads_(usable_cores(), true),
      memory_bytes_(memory_bytes) {
  if (!threads_.cores().empty()) cores_ = threads_.cores();
  if (cores_.empty()) cores_ = {0};
  memory_ = map_or_refuse(memory_bytes_);
  constexpr std::size_t kPart = std::size_t{8} << 20;
  share(static_cast<std::int64_t>(memory_bytes_ / kPart),
        [this](std::int64_t task, int) { std::memset(memory() + static_cast<std::size_t>(task) * kPart, 1, kPart); });
  make_node_arenas(facts);
}

void Workbench::make_node_arenas(const std::vector<CoreFacts>& facts) {
  std::map<std::int64_t, std::vector<int>> threads_of;
  for (const CoreFacts& core : facts) {
    const auto at = std::find(cores_.begin(), cores_.end(), static_cast<int>(core.number));
    if (core.node && at != cores_.end()) threads_of[*core.node].push_back(static_cast<int>(at - cores_.begin()));
  }
  if (threads_of.size() < 2) return;
  for (const auto& [node, threads] : threads_of) {
    move_to(cores_[static_cast<std::size_t>(threads.front())]);  // a rank's memory is mapped on its cores
    node_arenas_.push_back({static_cast<int>(node), threads, map_or_refuse(node_arena_bytes())});
  }
  on_each_core([&](int thread) {
    for (const NodeArena& arena : node_arenas_) {
      const auto at = std::find(arena.threads.begin(), arena.threads.end(), thread);
      if (at == arena.threads.end()) continue;
      const std::size_t place = static_cast<std::size_t>(at - arena.threads.begin()), parts = arena.threads.size();
      const std::size_t begin = node_arena_bytes() * place / parts, end = node_arena_bytes() * (place + 1) / parts;
      std::memset(arena.memory.get() + begin, 1, end - begin);
    }
  });
  for (const NodeArena& arena : node_arenas_) {
    NodeSet own;
    own.add(arena.node);
    const std::optional<double> share = share_elsewhere(arena.memory.get(), node_arena_bytes(), own);
    if (share) far_share_ = std::max(far_share_.value_or(0.0), *share);
    // Else the system may move pages to cores that read them.
    keep_at_nodes(arena.memory.get(), node_arena_bytes(), own);
  }
}

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

namespace {

double grown(const Fact& before, const Fact& after) {
  return before && after && *after > *before ? static_cast<double>(*after - *before) : 0.0;
}

double share_of(double part, double whole) { return whole > 0.0 ? std::clamp(part / whole, 0.0, 1.0) : 0.0; }

double process_seconds() { return 1e-9 * static_cast<double>(process_cpu_ns()); }

CoresOfProbe places_of(const Probe& probe, const Workbench& bench, const std::vector<CoreFacts>& cores) {
  CoresOfProbe places;
  if (probe.core >= 0) {
    places.own = {probe.core};
  } else {
    places.own.insert(bench.cores().begin(), bench.cores().end());
  }
  for (const CoreFacts& core : cores) {
    if (places.own.count(core.number) == 0) continue;
    for (const std::int64_t other : numbers_of_list(core.siblings)) {
      if (std::find(bench.cores().begin(), bench.cores().end(), static_cast<int>(other)) == bench.cores().end())
        places.siblings.insert(other);
    }
  }
  return places;
}

void measure(Workbench& bench, const Probe& probe, const CoresOfProbe& places, TimeSums* sums,
             std::vector<double>* rounds) {
  bench.move_to(probe.core >= 0 ? probe.core : bench.cores().front());
  const Counters before = read_counters();
  const double began = monotonic_seconds(), used = process_seconds();
  const double figure = probe.once();
  const double wall = monotonic_seconds() - began;
  sums->used += process_seconds() - used;
  sums->add(places, wall, before, read_counters());
  rounds->push_back(figure);
}

}  // namespace

// What waited for a core while the hypervisor ran something else counts in both.
double TakenTime::share() const { return std::min(1.0, std::max({missing, delay + stolen, throttled + stolen})); }

double Figure::median() const { return median_of(rounds); }

double Figure::best() const {
  if (rounds.empty()) return 0.0;
  return more_is_better ? *std::max_element(rounds.begin(), rounds.end())
                        : *std::min_element(rounds.begin(), rounds.end());
}

double Figure::worst() const {
  if (rounds.empty()) return 0.0;
  return more_is_better ? *std::min_element(rounds.begin(), rounds.end())
                        : *std::max_element(rounds.begin(), rounds.end());
}

void TimeSums::add(const CoresOfProbe& cores, double wall, const Counters& before, const Counters& after) {
  due += wall * static_cast<double>(cores.own.size());
  delay += 1e-9 * grown(before.run_delay_ns, after.run_delay_ns);
  double longest = 0.0;  // groups lie within each other: the outer one has throttled the inner one's share too
  for (std::size_t i = 0; i < std::min(before.groups.size(), after.groups.size()); ++i)
    longest = std::max(longest, 1e-9 * grown(before.groups[i].throttled_ns, after.groups[i].throttled_ns));
  throttled += longest;
  for (std::size_t i = 0; i < std::min(before.cores.size(), after.cores.size()); ++i) {
    const Counters::Core &was = before.cores[i], &is = after.cores[i];
    const double of_core = 1e-3 * grown(was.busy_ms, is.busy_ms);
    if (cores.own.count(is.number) > 0) {
      stolen += 1e-3 * grown(was.stolen_ms, is.stolen_ms);
      busy += of_core;
    }
    if (cores.siblings.count(is.number) > 0) {
      siblings += of_core;
      siblings_due += wall;
    }
  }
}

TakenTime TimeSums::taken(bool never_waits) const {
  constexpr double kTick = 0.01;  // the kernel counts busy and stolen time in ticks: one more or less says nothing
  TakenTime taken;
  if (never_waits) taken.missing = share_of(due - used, due);
  taken.delay = share_of(delay, due);
  taken.throttled = share_of(throttled, due);
  taken.stolen = share_of(stolen - kTick, due);
  taken.others = share_of(busy - used - kTick, due);
  taken.siblings = share_of(siblings - kTick, siblings_due);
  return taken;
}

std::vector<Figure> measure_rounds(Workbench& bench, const std::vector<NamedItem>& items, int rounds,
                                   const std::vector<CoreFacts>& cores) {
  std::vector<Figure> figures;
  std::vector<const Probe*> probes;
  std::vector<CoresOfProbe> places;
  for (const NamedItem& item : items) {
    for (const Probe& probe : item.item->probes) {
      figures.push_back({item.name, probe.name, probe.place, probe.unit, probe.more_is_better, {}, 0.0, {}});
      probes.push_back(&probe);
      places.push_back(places_of(probe, bench, cores));
    }
  }
  std::vector<TimeSums> sums(probes.size());
  for (std::size_t i = 0; i < probes.size(); ++i) {
    bench.move_to(probes[i]->core >= 0 ? probes[i]->core : bench.cores().front());
    probes[i]->once();
  }
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < probes.size(); ++i) measure(bench, *probes[i], places[i], &sums[i], &figures[i].rounds);
  }
  bench.move_to(bench.cores().front());
  for (std::size_t i = 0; i < probes.size(); ++i) {
    figures[i].taken = sums[i].taken(probes[i]->core >= 0 && !probes[i]->waits);
    if (probes[i]->limit) figures[i].limit = probes[i]->limit();
  }
  return figures;
}

}  // namespace bascule
