// SPDX-License-Identifier: Apache-2.0
// The rounds of a bring-up: every probe once a round, with the kernel's counters before and after.
#include <algorithm>
#include <ctime>

#include "src/base/clock.h"
#include "src/bringup/taken_time.h"
#include "src/bringup/workbench.h"

namespace bascule {
namespace {

double process_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

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

std::vector<Figure> measure_rounds(Workbench& bench, const std::vector<NamedItem>& items, int rounds,
                                   const std::vector<CoreFacts>& cores) {
  std::vector<Figure> figures;
  std::vector<const Probe*> probes;
  std::vector<CoresOfProbe> places;
  for (const NamedItem& item : items) {
    for (const Probe& probe : item.item->probes) {
      Figure figure;
      figure.item = item.name;
      figure.name = probe.name;
      figure.place = probe.place;
      figure.unit = probe.unit;
      figure.more_is_better = probe.more_is_better;
      figures.push_back(std::move(figure));
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
