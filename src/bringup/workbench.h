// SPDX-License-Identifier: Apache-2.0
// The measuring equipment of all items of a bring-up, and the figures that it gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "src/base/mapped_memory.h"
#include "src/base/span.h"
#include "src/machine/machine.h"
#include "src/runtime/threads.h"

namespace bascule {

// A figure of `bascule bringup`: what was measured, in several rounds, and how much time was taken from it.

// The share of its threads' time that a figure did not get, by who took it, 0..1 each. What the kernel does not count
// is 0.
struct TakenTime {
  double missing = 0.0;    // in all: CPU time against wall time; of work that waits for nothing else
  double delay = 0.0;      // another process had the core
  double throttled = 0.0;  // a control group's quota was used up
  double stolen = 0.0;     // the hypervisor ran something else
  double others = 0.0;     // of the time of its cores: used by other processes
  double siblings = 0.0;   // how busy the other hardware threads of its cores were with other processes' work

  // The most that any of these explains, at most 1.
  double share() const;
};

struct Figure {
  std::string item;   // of --only: "products"
  std::string name;   // "float32 3072 x 768"
  std::string place;  // "core 1", "all cores"; "" where that says nothing
  std::string unit;   // "GFLOP/s"
  bool more_is_better = true;
  std::vector<double> rounds;
  double limit = 0.0;  // the most that this machine allows, in the same unit; 0: not measured
  TakenTime taken;

  std::string key() const { return item + " " + name + " " + place; }
  double median() const;
  double best() const;
  double worst() const;
};

// The time that was taken from a probe over its rounds, from the kernel's counters before and after each.

// The cores that a probe runs on, and their siblings that this process may not use.
struct CoresOfProbe {
  std::set<std::int64_t> own, siblings;
};

// Sums over the rounds of one probe, in seconds.
struct TimeSums {
  double due = 0.0;   // threads times wall time
  double used = 0.0;  // CPU time of this process
  double delay = 0.0, throttled = 0.0, stolen = 0.0;
  double busy = 0.0, siblings = 0.0, siblings_due = 0.0;

  // A round that took `wall` seconds. Its `used` is the caller's to add.
  void add(const CoresOfProbe& cores, double wall, const Counters& before, const Counters& after);
  // never_waits: the probe is one thread's work that waits for nothing. All threads of a step wait for the last.
  TakenTime taken(bool never_waits) const;
};

// Tasks that a function describes, dealt to threads.

// run(task, thread) for each task, by whichever thread is free.
void share_work(Threads& threads, std::int64_t tasks, const std::function<void(std::int64_t task, int thread)>& run);

// All items of a bring-up measure with these: cores, threads, memory, and how long one measurement may take. And the
// rounds in which they take turns.

class Workbench : NonCopyable {
 public:
  // folder: where the disk is measured. memory_bytes: a power of two, at least 8 MiB; more than the caches hold, to
  // measure memory. Throws Error kMemory where the system refuses it.
  // facts: of the cores, which say where memory nodes are.
  Workbench(Isa isa, std::string folder, std::size_t memory_bytes, const std::vector<CoreFacts>& facts = read_cores());

  const std::vector<int>& cores() const { return cores_; }  // that this process may use, by thread
  int core_count() const { return static_cast<int>(cores_.size()); }
  Isa isa() const { return isa_; }
  const std::string& folder() const { return folder_; }
  Threads& threads() { return threads_; }  // one for each core
  // For all items in turn: each writes what it reads. Touched, in large pages where the system has any.
  std::byte* memory() const { return memory_.get(); }
  std::size_t memory_bytes() const { return memory_bytes_; }
  // Where cores of several memory nodes are used: for each of these an arena of half as many bytes, as a rank of a run
  // on its cores would have it, touched by its cores alone. Else none.
  struct NodeArena {
    int node = 0;
    std::vector<int> threads;  // on its cores: places in cores()
    MappedMemory memory;
  };
  const std::vector<NodeArena>& node_arenas() const { return node_arenas_; }
  std::size_t node_arena_bytes() const { return memory_bytes_ / 2; }
  // The largest share of such an arena that lies at other nodes: its own had too little free. Unknown without arenas.
  std::optional<double> far_share() const { return far_share_; }
  // The time that one measurement takes, about.
  double seconds() const { return seconds_; }
  void set_seconds(double seconds) { seconds_ = seconds; }

  // The calling thread works on this core alone until the next call.
  void move_to(int core) noexcept;
  // On all cores at once: run(task, thread) for each task.
  void share(std::int64_t tasks, const std::function<void(std::int64_t task, int thread)>& run);
  // run(i) once on each core, at the same time; i counts cores().
  void on_each_core(const std::function<void(int)>& run);

 private:
  void make_node_arenas(const std::vector<CoreFacts>& facts);

  std::vector<int> cores_;
  Isa isa_;
  std::string folder_;
  Threads threads_;
  std::size_t memory_bytes_;
  MappedMemory memory_;
  std::vector<NodeArena> node_arenas_;
  std::optional<double> far_share_;
  double seconds_ = 0.01;
};

// One figure, and how it is measured once.
struct Probe {
  std::string name, place, unit;
  bool more_is_better = true;
  int core = -1;                  // runs on this one alone; -1: may use all
  bool waits = false;             // for a disk, say: then its CPU time says nothing about what was taken from it
  std::function<double()> once;   // in its unit
  std::function<double()> limit;  // after all rounds: the most that this machine allows, in the same unit; may be empty
};

// A group of figures that --only can choose, and the data that they work on.
class Item {
 public:
  virtual ~Item() = default;
  std::vector<Probe> probes;

 protected:
  // core: -1: all together. Of ns and ms fewer are better.
  Probe& probe(std::string name, const std::string& unit, int core, std::function<double()> once);
};

struct ItemKind {
  const char* name;
  std::unique_ptr<Item> (*make)(Workbench&);
};
// In the order of the report.
const std::vector<ItemKind>& item_kinds();

std::unique_ptr<Item> make_clock_item(Workbench& bench);
std::unique_ptr<Item> make_product_item(Workbench& bench);
std::unique_ptr<Item> make_memory_item(Workbench& bench);
// The name and the place of its figures of an arena of one node that cores of one node read.
std::string read_of_node(int node);
std::string cores_of_node(int node);
std::unique_ptr<Item> make_latency_item(Workbench& bench);
std::unique_ptr<Item> make_page_item(Workbench& bench);
std::unique_ptr<Item> make_disk_item(Workbench& bench);
std::unique_ptr<Item> make_jpeg_item(Workbench& bench);
std::unique_ptr<Item> make_kernel_item(Workbench& bench);
std::unique_ptr<Item> make_reduction_item(Workbench& bench);

struct NamedItem {
  std::string name;
  std::unique_ptr<Item> item;
};

// Every probe once a round, after one that warms up: whatever disturbs the machine for a while disturbs them alike.
std::vector<Figure> measure_rounds(Workbench& bench, const std::vector<NamedItem>& items, int rounds,
                                   const std::vector<CoreFacts>& cores);

// Calls work() until about bench.seconds() are over, at least once; returns the seconds of one call.
double seconds_of(const Workbench& bench, const std::function<void()>& work);

// With an even number of values, the mean of the middle two; 0 of none.
double median_of(std::vector<double> values);

}  // namespace bascule
