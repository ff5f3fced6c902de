// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/taken_time.h"

#include <algorithm>

namespace bascule {
namespace {

double grown(const Fact& before, const Fact& after) {
  return before && after && *after > *before ? static_cast<double>(*after - *before) : 0.0;
}

double share_of(double part, double whole) { return whole > 0.0 ? std::clamp(part / whole, 0.0, 1.0) : 0.0; }

}  // namespace

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

}  // namespace bascule
