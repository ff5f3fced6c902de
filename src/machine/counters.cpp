// SPDX-License-Identifier: Apache-2.0
// Reads what the kernel counts: time, throttling, pressure, swapping.
#include <unistd.h>

#include "src/machine/fact_files.h"
#include "src/machine/groups.h"
#include "src/machine/machine.h"

namespace bascule {
namespace {

// "run time, delay, slices" of each thread; the file of the process is that of its first thread.
void read_run_times(const std::string& root, Counters* counters) {
  const std::string tasks = root + "/proc/self/task";
  std::vector<std::string> files = {root + "/proc/self/schedstat"};
  const std::vector<std::int64_t> numbers = numbered_entries(tasks, "");
  if (!numbers.empty()) files.clear();
  for (const std::int64_t number : numbers) files.push_back(tasks + "/" + std::to_string(number) + "/schedstat");
  for (const std::string& file : files) {
    const std::vector<std::string> words = words_of(text_in(file).value_or(""));
    if (words.size() < 2) continue;
    counters->run_ns = sum_of(counters->run_ns, number_of(words[0]));
    counters->run_delay_ns = sum_of(counters->run_delay_ns, number_of(words[1]));
  }
}

// cpuN user nice system idle iowait irq softirq steal guest guest_nice, in ticks.
void read_core_times(const std::string& root, Counters* counters) {
  const std::int64_t tick_ms = 1000 / sysconf(_SC_CLK_TCK);
  const std::string frequencies = root + "/sys/devices/system/cpu/cpu";
  for (const std::string& line : lines_of(whole_text(root + "/proc/stat"))) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() < 9 || words[0].rfind("cpu", 0) != 0) continue;
    const Fact number = number_of(words[0].substr(3));
    if (!number) continue;  // the sum of all
    Counters::Core core;
    core.number = *number;
    for (const std::size_t word : {1u, 2u, 3u, 6u, 7u}) core.busy_ms = sum_of(core.busy_ms, number_of(words[word]));
    core.busy_ms = times(core.busy_ms, tick_ms);
    core.stolen_ms = times(number_of(words[8]), tick_ms);
    const std::string folder = frequencies + std::to_string(*number);
    core.khz = number_in(folder + "/cpufreq/scaling_cur_freq");
    core.throttles = sum_of(number_in(folder + "/thermal_throttle/core_throttle_count"),
                            number_in(folder + "/thermal_throttle/package_throttle_count"));
    counters->cores.push_back(core);
  }
}

void read_throttling(const std::string& root, Counters* counters) {
  for (const GroupFolder& at : group_folders(root)) {
    if (!at.has("cpu")) continue;
    const std::string text = whole_text(root + at.folder + "/cpu.stat");
    Counters::Group group;
    group.folder = at.folder;
    group.periods = number_of(value_of(text, "nr_periods"));
    group.throttled_periods = number_of(value_of(text, "nr_throttled"));
    group.throttled_ns = at.is_version_2 ? times(number_of(value_of(text, "throttled_usec")), 1000)
                                         : number_of(value_of(text, "throttled_time"));
    if (group.throttled_ns) counters->groups.push_back(std::move(group));
  }
}

// "some avg10=0.72 avg60=0.84 avg300=3.83 total=38072202042"
Fact pressure_us(const std::string& root, const char* what) {
  const std::string line = text_in(root + "/proc/pressure/" + what).value_or("");
  const std::size_t total = line.find("total=");
  return line.rfind("some ", 0) == 0 && total != std::string::npos ? number_of(line.substr(total + 6)) : Fact();
}

}  // namespace

Counters read_counters(const std::string& root) {
  Counters counters;
  read_run_times(root, &counters);
  read_core_times(root, &counters);
  read_throttling(root, &counters);
  counters.cpu_pressure_us = pressure_us(root, "cpu");
  counters.memory_pressure_us = pressure_us(root, "memory");
  counters.io_pressure_us = pressure_us(root, "io");
  const std::string paging = whole_text(root + "/proc/vmstat");
  counters.pages_swapped = sum_of(number_of(value_of(paging, "pswpin")), number_of(value_of(paging, "pswpout")));
  return counters;
}

}  // namespace bascule
