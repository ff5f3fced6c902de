// SPDX-License-Identifier: Apache-2.0
// The facts of a machine and of the disk of a folder.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace bascule {

// The facts of a machine that decide how fast a run is and what it may use, as /proc, /sys and the control groups state
// them. One plain struct, read once; a fact whose file is missing or makes no sense is unknown (std::nullopt), never
// guessed. machine_json.h writes it to JSON and reads it back. Before the seal.
//
//   const Machine machine = read_machine();
//   const Counters before = read_counters(); ...; const Counters after = read_counters();

using Fact = std::optional<std::int64_t>;
using TextFact = std::optional<std::string>;

// The value of a limit that the system says it does not set.
constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

struct ProcessorFacts {
  TextFact vendor, name, microcode;  // "GenuineIntel", "Intel(R) Xeon(R) Processor", "0x1"
  Fact family, model, stepping;
  std::vector<std::string> vector_flags;  // of /proc/cpuinfo: sse*, avx*, amx*, fma, f16c, in its order
  TextFact hypervisor;                    // "KVM", "Xen", ...; "none" on a physical machine
};

struct CoreFacts {
  std::int64_t number = 0;  // as Linux counts them; one for each hardware thread
  Fact package, core, node;
  TextFact siblings;  // hardware threads of the same core, as a list: "0,64"
  TextFact governor;  // of its frequency
  Fact least_khz, most_khz;
};

struct CacheFacts {
  Fact level, bytes;
  TextFact type;   // "Data", "Instruction", "Unified"
  TextFact cores;  // that share it, as a list
};

struct NodeFacts {
  std::int64_t number = 0;  // a NUMA node
  TextFact cores, distances;
  Fact memory_bytes;
};

// A control group that this process is in, or one above it: a folder of a hierarchy of either version. In version 1
// each controller has folders of its own.
struct GroupFacts {
  std::string folder;
  std::int64_t version = 0;          // 1 or 2
  std::optional<double> processors;  // the quota: 0.6 cores' worth of time. Unknown where there is none
  TextFact cores;                    // the cpuset that applies, as a list
  Fact memory_bytes;                 // its limit; unknown where there is none
};

struct MemoryFacts {
  Fact bytes, swap_bytes, swappiness;
  Fact huge_page_bytes, huge_pages_reserved;  // of the pool (vm.nr_hugepages)
  TextFact transparent, shared_transparent;   // the choice in brackets: "always", "madvise", "never", ...
  Fact channels, channels_filled;             // as the memory controllers' driver (EDAC) counts them
};

struct KernelFacts {
  TextFact release, build;  // "6.1.0-18-amd64", "#1 SMP PREEMPT_DYNAMIC ..."
  TextFact clock_source;
  struct Mitigation {
    std::string name, state;
  };
  std::vector<Mitigation> mitigations;
};

// The limits of this process, and its use of memory when it was read. kUnlimited: no limit.
struct ProcessFacts {
  Fact address_bytes, data_bytes, stack_bytes, locked_bytes;  // RLIMIT_AS, _DATA, _STACK, _MEMLOCK
  std::optional<bool> may_lock_all;                           // CAP_IPC_LOCK: the limit of locked memory is not applied
  Fact address_bytes_used, data_bytes_used;
  TextFact cores, nodes;  // that it may use, as lists
  struct Node {
    std::int64_t number = 0, pages = 0;
  };
  std::vector<Node> pages;  // where its memory lies; read_machine() alone reads it, as it walks all of it
};

// Counters only grow (or, where named so, are of this moment). Two readings, one before and one after some work, tell
// what was taken from it.
struct Counters {
  // Summed over all live threads of this process: time on a core, and time spent waiting for one while able to run.
  Fact run_ns, run_delay_ns;
  struct Core {
    std::int64_t number = 0;
    Fact busy_ms, stolen_ms;  // by this and other processes; by other virtual machines of the host
    Fact khz;                 // of this moment
    Fact throttles;           // thermal, of the core and of its package
  };
  std::vector<Core> cores;
  struct Group {
    std::string folder;
    Fact periods, throttled_periods, throttled_ns;
  };
  std::vector<Group> groups;                                 // those that count it
  Fact cpu_pressure_us, memory_pressure_us, io_pressure_us;  // some task of the machine waited
  Fact pages_swapped;                                        // in and out
};

struct Machine {
  ProcessorFacts processor;
  std::vector<CoreFacts> cores;
  std::vector<CacheFacts> caches;  // each once, however many cores share it
  std::vector<NodeFacts> nodes;
  std::vector<GroupFacts> groups;  // each hierarchy from this process's group upwards
  MemoryFacts memory;
  KernelFacts kernel;
  ProcessFacts process;
  Counters counters;
};

// root: a folder in which /proc and /sys lie, for tests; "" for the system's own.
Machine read_machine(const std::string& root = "");

// The parts, for callers that need no more.
ProcessorFacts read_processor(const std::string& root = "");
std::vector<CoreFacts> read_cores(const std::string& root = "");
std::vector<CacheFacts> read_caches(const std::string& root = "");
std::vector<NodeFacts> read_nodes(const std::string& root = "");
std::vector<GroupFacts> read_groups(const std::string& root = "");
MemoryFacts read_memory(const std::string& root = "");
KernelFacts read_kernel(const std::string& root = "");
ProcessFacts read_process(const std::string& root = "");
Counters read_counters(const std::string& root = "");

// The numbers of a list of cores or nodes: "0-3,8" has five. None where it is unknown or no list.
std::vector<std::int64_t> numbers_of_list(const TextFact& list);

// The facts of the file system that holds a folder. Before the seal.

struct DiskFacts {
  TextFact type, device, options;  // "ext4", "/dev/vda", "rw,relatime"
  Fact bytes, free_bytes;          // free: for this user; unknown where the file system does not say
};

// root: where /proc/self/mountinfo lies, as in read_machine().
DiskFacts read_disk(const std::string& folder, const std::string& root = "");

// How many ranks of a run suit a machine: one for each memory node that has cores for them, so that each finds its own
// memory near its cores. A proposal alone: a file states its ranks, as other numbers of ranks give other bits.
struct ProposedRanks {
  int ranks = 1;
  std::string reason;  // "one for each memory node, whose cores then use its memory"
};

// cores: that the process may use. threads: that all ranks together are told to use; 0: every core.
ProposedRanks propose_ranks(const std::vector<NodeFacts>& nodes, const std::vector<std::int64_t>& cores,
                            std::int64_t threads = 0);

}  // namespace bascule
