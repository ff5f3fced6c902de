// SPDX-License-Identifier: Apache-2.0
// The ranks of a run as a group.
#pragma once

#include <sched.h>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/base/span.h"
#include "src/base/systemd.h"
#include "src/distributed/control.h"
#include "src/distributed/shared_memory.h"

namespace bascule {

// The ranks of a run: who this process is among them, the control page that those of a node share, the memory that they
// share, barriers, and the watch over each other. A run of one process has a group of one, for which all of it is
// nothing.
//
//   const RankPlace place = place_from_environment();        // under mpirun or Slurm; else alone
//   Group group(place, {timeout_seconds, launcher});         // returns when all have come
//   SharedMemory memory = group.share(bytes);                // all together
//   group.set_phase(RankPhase::kComputing, step);
//   if (!group.exchange(mine, all)) ...                      // a barrier that carries a few numbers of each
//   group.leave();
//
// A rank that dies, falls silent or gives up ends all others: the watch, a thread of each rank, sees it and ends the
// process with exit code 5, whatever it is doing. A run of one process has a watch where systemd wants to hear that it
// lives ($WATCHDOG_USEC): it is told so by rank 0 as long as its heart beats.

struct RankPlace {
  int rank = 0, world_size = 1;
  int local_rank = 0, local_size = 1;  // among those of this machine
  int node = 0, nodes = 1;             // machines; each has equally many ranks, numbered one after another
  std::string run;                     // a name that all processes of the run have in common, and no other run
  std::string launcher;                // address of the socket of `bascule run`, if that started us; else ""
  bool lacks_pmix = false;             // started by Slurm without the service by which the MPI library finds the ranks

  bool is_alone() const { return world_size == 1; }
  bool is_on_one_node() const { return local_size == world_size; }
};

// From the variables of Open MPI or Slurm; alone where there are none. Throws kSettings where they contradict
// themselves, or spread the ranks unevenly.
RankPlace place_from_environment();
[[noreturn]] void refuse_uneven_nodes();
// The library that connects the machines of a run, "Open MPI v4.1.4". Empty: the program was built without one, and a
// run has one machine.
std::string mpi_version();

struct GroupOptions {
  std::int64_t timeout_seconds = 60;
  // Called by the watch, in its thread, when the run has failed; it must not return. Null: prints the line if no
  // launcher will, and ends the process with the failure's exit code.
  void (*on_failure)(ControlPage& page) = nullptr;
};

class NodeLinks;
class Nodes;
class Watch;

class Group : NonCopyable {
 public:
  // Before the seal. Waits for the others at most timeout_seconds; throws Error kRank.
  Group(const RankPlace& place, const GroupOptions& options);
  ~Group();

  int rank() const { return place_.rank; }
  int size() const { return place_.world_size; }
  int local_rank() const { return place_.local_rank; }
  int local_size() const { return place_.local_size; }
  int node() const { return place_.node; }
  int nodes() const { return place_.nodes; }
  bool is_first() const { return place_.rank == 0; }
  bool is_leader() const { return place_.local_rank == 0; }  // the first of its node
  Nodes* between_nodes() const { return nodes_.get(); }      // MPI; null where there is one node
  const RankPlace& place() const { return place_; }

  // Before the seal, by all ranks of the node in the same order: the same memory in each.
  SharedMemory share(std::size_t bytes, HugePages pages = HugePages::kOff);
  // Gives this process its part of the cores that its launcher left it, where the ranks of a node were given the same
  // ones. Before any thread is started that should keep to them.
  void take_cores();
  // See CountedProgress. Null: no more; returns when the last call has.
  void count_progress(std::uint64_t (*progress)(void* context), std::int64_t (*row)(void* context), void* context);

  // After the seal. False: the run has failed.
  [[nodiscard]] bool barrier() noexcept;
  [[nodiscard]] bool local_barrier() noexcept;  // of the ranks of this node
  // all: size() rows of mine.size() (at most kExchanged) numbers, in rank order.
  [[nodiscard]] bool exchange(Span<const double> mine, Span<double> all) noexcept;
  // By all ranks together, of memory that the ranks of a node share. Every byte was written on at most one node and is
  // zero on the others: whole on node 0.
  [[nodiscard]] bool combine(Span<std::byte> memory) noexcept;
  // Gives every node the whole memory. Each node has written its part, [begin, end); the parts follow one another from
  // the first byte. All ranks of a node say the same.
  [[nodiscard]] bool gather_parts(Span<std::byte> memory, std::size_t begin, std::size_t end) noexcept;
  void set_phase(RankPhase phase, std::int64_t step) noexcept;
  void set_phase(RankPhase phase) noexcept;
  Heartbeat& heart() noexcept { return slot().heart; }
  TapePosition& position() noexcept { return slot().position; }
  // A signal that the launcher was sent, or a rank of this machine, which passed it on; else 0.
  void stop_all(int signal) noexcept { control().stop_signal.store(signal, std::memory_order_relaxed); }
  int stop_signal() const noexcept { return control().stop_signal.load(std::memory_order_relaxed); }
  bool has_failed() const noexcept { return control().has_failed(); }
  ControlPage& control() const noexcept;

  // This rank met an error: writes the line to standard error, and the document, which may be empty, to standard
  // output; ends all others, with this exit code. False: the run has failed already, and this rank's error is of no
  // interest.
  [[nodiscard]] bool give_up(int exit_code, const std::string& line, const std::string& document) noexcept;
  // Waits until all are here; from then on a process may go without being missed. False: the run has failed.
  [[nodiscard]] bool leave() noexcept;

 private:
  RankSlot& slot() noexcept { return control().slots[place_.local_rank]; }
  void meet(const GroupOptions& options);
  [[noreturn]] static void refuse_if_watch_does_not(const char* what);
  void meet_nodes();
  void wait_for_members(const GroupOptions& options);
  void go_to_leader(const GroupOptions& options);
  template <typename Body>
  bool by_leaders(const Body& body) noexcept;

  RankPlace place_;
  int timeout_ms_ = 60000;
  int spins_ = 0;
  std::uint32_t exchanges_ = 0;
  SharedMemory page_;
  NotifySocket notify_;              // rank 0's
  std::vector<Descriptor> members_;  // leader: connections to local ranks 1, 2, ...; others: one, to the leader
  std::unique_ptr<Nodes> nodes_;
  std::unique_ptr<NodeLinks> links_;  // of the leader
  std::unique_ptr<Watch> watch_;      // goes before what it watches
};

// While it lives, a change of what progress(context) returns counts as a heartbeat, and row(context) is the row of the
// data whose file is being read, -1 for none. Called by the watch's thread.
class CountedProgress : NonCopyable {
 public:
  CountedProgress(Group& group, std::uint64_t (*progress)(void* context), std::int64_t (*row)(void* context),
                  void* context)
      : group_(group) {
    group.count_progress(progress, row, context);
  }
  ~CountedProgress() { group_.count_progress(nullptr, nullptr, nullptr); }

 private:
  Group& group_;
};

// A barrier of the start, by all ranks of the group together. Before the seal.

// what: was being done, for the Error kRank where the run has failed.
inline void meet(Group& group, const char* what) {
  if (!group.barrier()) throw Error(ErrorKind::kRank, what, "another rank failed");
}

// Which cores a rank works on: of those that its launcher left it, a part that lies together, so that ranks share,
// where there are enough, neither a core's two threads nor a package's memory. Before the seal.

// A thread of a core, as Linux numbers it.
struct Processor {
  int number = 0;
  int core = 0;  // the same number for the threads of one, and for no others
};

// All processors of this machine, neighbours next to each other: threads of a core, cores of a package, packages. Linux
// numbers them otherwise (often all first threads, then all second ones).
std::vector<Processor> processors_by_neighbourhood();

// Rank `rank`'s part of `allowed`, of `ranks` parts: equally many whole cores, give or take one; where there are fewer
// cores than ranks, processors; at least one, shared where there are fewer than ranks.
cpu_set_t part_of_processors(const std::vector<Processor>& by_neighbourhood, const cpu_set_t& allowed, int rank,
                             int ranks);

}  // namespace bascule
