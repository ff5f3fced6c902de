// SPDX-License-Identifier: Apache-2.0
#include "src/machine/machine.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "src/base/paths.h"
#include "src/machine/fact_files.h"
#include "src/machine/process_limits.h"

namespace bascule {
namespace {

constexpr const char* kCpus = "/sys/devices/system/cpu";

// "always [madvise] never": the one in brackets.
TextFact chosen_in(const std::string& path) {
  const TextFact line = text_in(path);
  const std::size_t open = line ? line->find('[') : std::string::npos;
  const std::size_t close = open == std::string::npos ? open : line->find(']', open);
  if (close == std::string::npos) return std::nullopt;
  return line->substr(open + 1, close - open - 1);
}

// "48K", "2048K", "266240K".
Fact cache_bytes(const TextFact& size) {
  const Fact number = number_of(size);
  if (!number) return std::nullopt;
  const char unit = size->back();
  return *number * (unit == 'K' ? 1024 : unit == 'M' ? 1024 * 1024 : 1);
}

// The kernel names no hypervisor in one place: Xen has a folder, others show in the clocks that they offer, all in the
// CPU's flags.
TextFact hypervisor_of(const std::string& root, const std::vector<std::string>& flags) {
  if (TextFact type = text_in(root + "/sys/hypervisor/type")) return type;
  const std::string clocks = whole_text(root + "/sys/devices/system/clocksource/clocksource0/available_clocksource");
  if (clocks.find("kvm-clock") != std::string::npos) return "KVM";
  if (clocks.find("hyperv") != std::string::npos) return "Hyper-V";
  if (flags.empty()) return std::nullopt;
  const bool is_guest = std::find(flags.begin(), flags.end(), "hypervisor") != flags.end();
  if (!is_guest) return "none";
  return text_in(root + "/sys/class/dmi/id/sys_vendor").value_or("unnamed");
}

bool is_vector_flag(const std::string& flag) {
  for (const char* prefix : {"sse", "ssse", "avx", "amx", "fma", "f16c"}) {
    if (flag.rfind(prefix, 0) == 0) return true;
  }
  return false;
}

// A driver that watches memory for errors lists the channels of each controller, and the modules that are in them.
void read_channels(const std::string& root, MemoryFacts* facts) {
  const std::string all = root + "/sys/devices/system/edac/mc";
  for (const std::int64_t controller : numbered_entries(all, "mc")) {
    const std::string folder = all + "/mc" + std::to_string(controller);
    const auto channel_of = [](const std::vector<std::string>& words) -> Fact {  // "channel 1 slot 0"
      const auto at = std::find(words.begin(), words.end(), "channel");
      return at == words.end() || at + 1 == words.end() ? Fact() : number_of(*(at + 1));
    };
    const Fact last = channel_of(words_of(text_in(folder + "/max_location").value_or("")));
    if (!last) continue;
    std::set<std::int64_t> filled;
    for (const std::int64_t module : numbered_entries(folder, "dimm")) {
      const std::string place = folder + "/dimm" + std::to_string(module);
      const Fact channel = channel_of(words_of(text_in(place + "/dimm_location").value_or("")));
      if (channel && number_in(place + "/size").value_or(0) > 0) filled.insert(*channel);
    }
    facts->channels = facts->channels.value_or(0) + *last + 1;
    facts->channels_filled = facts->channels_filled.value_or(0) + static_cast<std::int64_t>(filled.size());
  }
}

// "7f00a000 default anon=512 dirty=512 N0=500 N1=12 kernelpagesize_kB=4"
std::vector<ProcessFacts::Node> read_pages(const std::string& root) {
  std::map<std::int64_t, std::int64_t> pages;
  for (const std::string& word : words_of(whole_text(root + "/proc/self/numa_maps"))) {
    const std::size_t equals = word.find('=');
    if (word[0] != 'N' || equals == std::string::npos) continue;
    const Fact node = number_of(word.substr(1, equals - 1)), count = number_of(word.substr(equals + 1));
    if (node && count) pages[*node] += *count;
  }
  std::vector<ProcessFacts::Node> nodes;
  nodes.reserve(pages.size());
  for (const auto& [node, count] : pages) nodes.push_back({node, count});
  return nodes;
}

}  // namespace

ProcessorFacts read_processor(const std::string& root) {
  const std::string text = whole_text(root + "/proc/cpuinfo");
  ProcessorFacts facts;
  facts.vendor = value_of(text, "vendor_id");
  facts.name = value_of(text, "model name");
  facts.microcode = value_of(text, "microcode");
  facts.family = number_of(value_of(text, "cpu family"));
  facts.model = number_of(value_of(text, "model\t"));
  facts.stepping = number_of(value_of(text, "stepping"));
  const std::vector<std::string> flags = words_of(value_of(text, "flags").value_or(""));
  std::copy_if(flags.begin(), flags.end(), std::back_inserter(facts.vector_flags), is_vector_flag);
  facts.hypervisor = hypervisor_of(root, flags);
  return facts;
}

std::vector<CoreFacts> read_cores(const std::string& root) {
  std::vector<CoreFacts> cores;
  for (const std::int64_t number : numbered_entries(root + kCpus, "cpu")) {
    const std::string folder = root + kCpus + "/cpu" + std::to_string(number);
    if (text_in(folder + "/online").value_or("1") == "0") continue;
    CoreFacts core;
    core.number = number;
    core.package = number_in(folder + "/topology/physical_package_id");
    core.core = number_in(folder + "/topology/core_id");
    core.siblings = text_in(folder + "/topology/thread_siblings_list");
    const std::vector<std::int64_t> nodes = numbered_entries(folder, "node");
    if (!nodes.empty()) core.node = nodes.front();
    core.governor = text_in(folder + "/cpufreq/scaling_governor");
    core.least_khz = number_in(folder + "/cpufreq/cpuinfo_min_freq");
    core.most_khz = number_in(folder + "/cpufreq/cpuinfo_max_freq");
    cores.push_back(std::move(core));
  }
  return cores;
}

std::vector<CacheFacts> read_caches(const std::string& root) {
  std::vector<CacheFacts> caches;
  std::set<std::tuple<Fact, TextFact, TextFact>> seen;
  for (const std::int64_t number : numbered_entries(root + kCpus, "cpu")) {
    const std::string folder = root + kCpus + "/cpu" + std::to_string(number) + "/cache";
    for (const std::int64_t index : numbered_entries(folder, "index")) {
      const std::string at = folder + "/index" + std::to_string(index);
      CacheFacts cache;
      cache.level = number_in(at + "/level");
      cache.bytes = cache_bytes(text_in(at + "/size"));
      cache.type = text_in(at + "/type");
      cache.cores = text_in(at + "/shared_cpu_list");
      if (seen.insert({cache.level, cache.type, cache.cores}).second) caches.push_back(std::move(cache));
    }
  }
  return caches;
}

std::vector<NodeFacts> read_nodes(const std::string& root) {
  std::vector<NodeFacts> nodes;
  const std::string all = root + "/sys/devices/system/node";
  for (const std::int64_t number : numbered_entries(all, "node")) {
    const std::string folder = all + "/node" + std::to_string(number);
    NodeFacts node;
    node.number = number;
    node.cores = text_in(folder + "/cpulist");
    node.distances = text_in(folder + "/distance");
    node.memory_bytes = times(
        number_of(value_of(whole_text(folder + "/meminfo"), "Node " + std::to_string(number) + " MemTotal")), 1024);
    nodes.push_back(std::move(node));
  }
  return nodes;
}

MemoryFacts read_memory(const std::string& root) {
  const std::string text = whole_text(root + "/proc/meminfo");
  MemoryFacts facts;
  facts.bytes = times(number_of(value_of(text, "MemTotal")), 1024);
  facts.swap_bytes = times(number_of(value_of(text, "SwapTotal")), 1024);
  facts.swappiness = number_in(root + "/proc/sys/vm/swappiness");
  facts.huge_page_bytes = times(number_of(value_of(text, "Hugepagesize")), 1024);
  facts.huge_pages_reserved = number_of(value_of(text, "HugePages_Total"));
  facts.transparent = chosen_in(root + "/sys/kernel/mm/transparent_hugepage/enabled");
  facts.shared_transparent = chosen_in(root + "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  read_channels(root, &facts);
  return facts;
}

KernelFacts read_kernel(const std::string& root) {
  KernelFacts facts;
  facts.release = text_in(root + "/proc/sys/kernel/osrelease");
  facts.build = text_in(root + "/proc/sys/kernel/version");
  facts.clock_source = text_in(root + "/sys/devices/system/clocksource/clocksource0/current_clocksource");
  const std::string folder = root + kCpus + "/vulnerabilities";
  for (const std::string& name : names_in(folder)) {
    if (const TextFact state = text_in(folder + "/" + name)) facts.mitigations.push_back({name, *state});
  }
  return facts;
}

ProcessFacts read_process(const std::string& root) {
  const std::string limits = whole_text(root + "/proc/self/limits"), status = whole_text(root + "/proc/self/status");
  ProcessFacts facts;
  facts.address_bytes = limit_of(value_of(limits, "Max address space"));
  facts.data_bytes = limit_of(value_of(limits, "Max data size"));
  facts.stack_bytes = limit_of(value_of(limits, "Max stack size"));
  facts.locked_bytes = limit_of(value_of(limits, "Max locked memory"));
  constexpr unsigned kIpcLock = 14;  // CAP_IPC_LOCK
  if (const TextFact mask = value_of(status, "CapEff"))
    facts.may_lock_all = (std::strtoull(mask->c_str(), nullptr, 16) >> kIpcLock & 1) != 0;
  facts.address_bytes_used = times(number_of(value_of(status, "VmSize")), 1024);
  facts.data_bytes_used = times(number_of(value_of(status, "VmData")), 1024);
  facts.cores = value_of(status, "Cpus_allowed_list");
  facts.nodes = value_of(status, "Mems_allowed_list");
  return facts;
}

Machine read_machine(const std::string& root) {
  Machine machine;
  machine.processor = read_processor(root);
  machine.cores = read_cores(root);
  machine.caches = read_caches(root);
  machine.nodes = read_nodes(root);
  machine.groups = read_groups(root);
  machine.memory = read_memory(root);
  machine.kernel = read_kernel(root);
  machine.process = read_process(root);
  machine.process.pages = read_pages(root);
  machine.counters = read_counters(root);
  return machine;
}

// Reads what the kernel counts: time, throttling, pressure, swapping.

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

namespace {

// "29 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard": the mount of the device that the folder is on.
void read_mount(const std::string& folder, const std::string& root, DiskFacts* facts) {
  struct stat at = {};
  if (::stat(folder.c_str(), &at) != 0) return;
  const std::string device = std::to_string(major(at.st_dev)) + ":" + std::to_string(minor(at.st_dev));
  for (const std::string& line : lines_of(whole_text(root + "/proc/self/mountinfo"))) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> before = words_of(line.substr(0, dash)), behind = words_of(line.substr(dash + 3));
    if (before.size() < 6 || behind.size() < 2 || before[2] != device) continue;
    facts->type = behind[0];
    facts->device = behind[1];
    facts->options = before[5];
    return;
  }
}

}  // namespace

DiskFacts read_disk(const std::string& folder, const std::string& root) {
  DiskFacts facts;
  read_mount(folder, root, &facts);
  struct statvfs space = {};
  if (::statvfs(folder.c_str(), &space) != 0 || space.f_blocks == 0) return facts;
  const auto bytes = [&](fsblkcnt_t blocks) {
    return static_cast<std::int64_t>(blocks) * static_cast<std::int64_t>(space.f_frsize);
  };
  facts.bytes = bytes(space.f_blocks);
  facts.free_bytes = bytes(space.f_bavail);
  return facts;
}

ProposedRanks propose_ranks(const std::vector<NodeFacts>& nodes, const std::vector<std::int64_t>& cores,
                            std::int64_t threads) {
  int used = 0, with_cores = 0;
  std::int64_t most = 0;  // of the usable cores of a node
  for (const NodeFacts& node : nodes) {
    const std::vector<std::int64_t> of_node = numbers_of_list(node.cores);
    const std::int64_t usable = std::count_if(of_node.begin(), of_node.end(), [&](std::int64_t core) {
      return std::find(cores.begin(), cores.end(), core) != cores.end();
    });
    with_cores += of_node.empty() ? 0 : 1;  // others are memory alone
    used += usable > 0 ? 1 : 0;
    most = std::max(most, usable);
  }
  if (used == 0) return {1, "the system does not say which cores have which memory"};
  if (nodes.size() == 1) return {1, "this machine has one memory node"};
  if (used == 1)
    return {1, with_cores == 1 ? "one memory node has all cores of this machine"
                               : "the cores that may be used here are of one memory node"};
  if (threads > 0 && threads <= most) return {1, "one memory node has cores for all threads"};
  return {used, "one for each memory node, whose cores then use its memory"};
}

}  // namespace bascule
