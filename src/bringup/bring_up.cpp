// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/bring_up.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/base/readable.h"
#include "src/machine/process_limits.h"
#include "src/runtime/arena.h"
#include "src/settings/nearest_key.h"

namespace bascule {
namespace {

constexpr int kRounds = 5;
constexpr const char* kBits = "bits";

void check_names(const std::vector<std::string>& only) {
  std::vector<std::string> names = item_names();
  for (const std::string& name : only) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::optional<std::string> meant = nearest_name(name, names);
    throw Error(ErrorKind::kSettings, "--only", "no item \"" + name + "\"",
                meant ? "did you mean \"" + *meant + "\"?" : "the items are " + joined(names));
  }
}

bool is_chosen(const BringUpOptions& options, const char* name) {
  return options.only.empty() || std::find(options.only.begin(), options.only.end(), name) != options.only.end();
}

// At most a sixth of what the machine and its control groups allow: other items need as much again.
std::size_t memory_to_measure() {
  const std::size_t allowed = read_process_limits().memory_bytes / 6;
  std::size_t bytes = std::size_t{16} << 20;
  while (2 * bytes <= std::min(allowed, std::size_t{512} << 20)) bytes *= 2;
  return bytes;
}

std::vector<NamedItem> make_items(Workbench& bench, const BringUpOptions& options) {
  std::vector<NamedItem> items;
  std::size_t probes = 0;
  for (const ItemKind& kind : item_kinds()) {
    if (!is_chosen(options, kind.name)) continue;
    items.push_back({kind.name, kind.make(bench)});
    probes += items.back().item->probes.size();
  }
  const double each = options.seconds / ((kRounds + 1) * static_cast<double>(std::max<std::size_t>(1, probes)));
  bench.set_seconds(std::clamp(each, 0.002, 0.1));
  return items;
}

}  // namespace

std::vector<std::string> item_names() {
  std::vector<std::string> names;
  for (const ItemKind& kind : item_kinds()) names.emplace_back(kind.name);
  names.emplace_back(kBits);
  return names;
}

const Figure* find_figure(const BringUp& bring_up, const std::string& key) {
  for (const Figure& figure : bring_up.figures) {
    if (figure.key() == key) return &figure;
  }
  return nullptr;
}

BringUp bring_up(const BringUpOptions& options, void (*say)(const std::string&), const SeeResult& see) {
  check_names(options.only);
  const double began = monotonic_seconds();
  BringUp result;
  result.program = BASCULE_VERSION;
#ifdef NDEBUG
  result.optimised = true;
#else
  result.optimised = false;
#endif
  result.started = utc_now("%Y-%m-%d %H:%M:%S");
  const Isa isa = best_isa();
  result.isa = isa_name(isa);
  result.before = read_counters();
  const std::vector<ProcessTime> processes = read_process_times();
  const TextFact cores = read_process().cores;  // before this thread is pinned to one
  Workbench bench(isa, options.folder, memory_to_measure());
  result.cores = bench.core_count();
  if (bench.threads().pin_error() != 0)
    say(std::string("bringup: the system refused to pin threads to cores (") +
        std::strerror(bench.threads().pin_error()) + "): figures of one core may be of another");
  {
    const std::vector<NamedItem> items = make_items(bench, options);
    result.figures = measure_rounds(bench, items, kRounds, read_cores());
  }
  if (is_chosen(options, kBits)) result.bits = compare_bits(bench, options.bits_seconds, see);
  result.machine = read_machine();
  result.machine.process.cores = cores;
  if (resident_bytes() > 0) {  // the kernel says where memory lies
    const std::size_t bytes = bench.memory_bytes() + bench.node_arenas().size() * bench.node_arena_bytes();
    result.huge_share = std::min(1.0, static_cast<double>(huge_page_bytes().anonymous) / static_cast<double>(bytes));
  }
  result.far_share = bench.far_share();
  result.seconds = monotonic_seconds() - began;
  result.neighbour = busiest_process(processes, read_process_times(), getpid(), result.seconds);
  return result;
}

}  // namespace bascule
