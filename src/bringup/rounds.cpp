// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/workbench.h"

#include <algorithm>

#include "src/base/clock.h"

namespace bascule {

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
