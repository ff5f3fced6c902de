// SPDX-License-Identifier: Apache-2.0
// The measuring equipment of all items of a bring-up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "src/bringup/rounds.h"
#include "src/machine/machine.h"
#include "src/runtime/threads.h"

namespace bascule {

// Tasks that a function describes, dealt to threads.

// run(task, thread) for each task, by whichever thread is free.
void share_work(Threads& threads, std::int64_t tasks, const std::function<void(std::int64_t task, int thread)>& run);

// All items of a bring-up measure with these: cores, threads, memory, and how long one measurement may take. And the
// rounds in which they take turns.

class Workbench {
 public:
  // folder: where the disk is measured. memory_bytes: a power of two, at least 8 MiB; more than the caches hold, to
  // measure memory. Throws Error kMemory where the system refuses it.
  Workbench(Isa isa, std::string folder, std::size_t memory_bytes);
  ~Workbench();
  Workbench(const Workbench&) = delete;
  Workbench& operator=(const Workbench&) = delete;

  const std::vector<int>& cores() const { return cores_; }  // that this process may use
  int core_count() const { return static_cast<int>(cores_.size()); }
  Isa isa() const { return isa_; }
  const std::string& folder() const { return folder_; }
  Threads& threads() { return threads_; }  // one for each core
  // For all items in turn: each writes what it reads. Touched, in large pages where the system has any.
  std::byte* memory() const { return memory_; }
  std::size_t memory_bytes() const { return memory_bytes_; }
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
  std::vector<int> cores_;
  Isa isa_;
  std::string folder_;
  Threads threads_;
  std::size_t memory_bytes_;
  std::byte* memory_ = nullptr;
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
};

struct ItemKind {
  const char* name;
  const char* meaning;
  std::unique_ptr<Item> (*make)(Workbench&);
};
// In the order of the report.
const std::vector<ItemKind>& item_kinds();

std::unique_ptr<Item> make_clock_item(Workbench& bench);
std::unique_ptr<Item> make_product_item(Workbench& bench);
std::unique_ptr<Item> make_memory_item(Workbench& bench);
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

// "core 3", "all cores".
std::string core_place(int core);

}  // namespace bascule
