// SPDX-License-Identifier: Apache-2.0
#include "src/machine/processes.h"

#include <unistd.h>

#include <map>
#include <set>

#include "src/machine/fact_files.h"

namespace bascule {
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
