// SPDX-License-Identifier: Apache-2.0
#include "src/machine/processes.h"

#include <unistd.h>

#include <map>

#include "src/machine/fact_files.h"

namespace bascule {

// "1234 (a name) S 1 ...": user and system time, in ticks, are the 12th and 13th words behind the name.
std::vector<ProcessTime> read_process_times(const std::string& root) {
  const std::int64_t tick_ms = 1000 / sysconf(_SC_CLK_TCK);
  std::vector<ProcessTime> processes;
  for (const std::int64_t number : numbered_entries(root + "/proc", "")) {
    const std::string line = text_in(root + "/proc/" + std::to_string(number) + "/stat").value_or("");
    const std::size_t open = line.find('('), close = line.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close < open) continue;
    const std::vector<std::string> words = words_of(line.substr(close + 1));
    if (words.size() < 13) continue;
    const Fact ticks = sum_of(number_of(words[11]), number_of(words[12]));
    if (ticks) processes.push_back({number, line.substr(open + 1, close - open - 1), *ticks * tick_ms});
  }
  return processes;
}

std::string busiest_process(const std::vector<ProcessTime>& before, const std::vector<ProcessTime>& after,
                            std::int64_t own, std::int64_t least_ms) {
  std::map<std::int64_t, std::int64_t> used_before;
  for (const ProcessTime& process : before) used_before[process.number] = process.cpu_ms;
  const ProcessTime* busiest = nullptr;
  std::int64_t most = least_ms;
  for (const ProcessTime& process : after) {
    const std::int64_t used = process.cpu_ms - used_before[process.number];
    if (process.number == own || used <= most) continue;
    most = used;
    busiest = &process;
  }
  return busiest == nullptr ? "" : busiest->name + " (process " + std::to_string(busiest->number) + ")";
}

}  // namespace bascule
