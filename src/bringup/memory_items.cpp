// SPDX-License-Identifier: Apache-2.0
// Items that measure memory: bandwidth, latency, first touch.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "src/base/clock.h"
#include "src/base/futex.h"
#include "src/base/mapped_memory.h"
#include "src/bringup/memory_loops.h"
#include "src/bringup/workbench.h"

namespace bascule {

#define BASCULE_COMPILED_ONLY
#define BASCULE_INSTRUCTION_SET(enumerator, name) \
  namespace name {                                \
  extern const MemoryLoops kMemoryLoops;          \
  }
#include "kernels/isas.inc"
#undef BASCULE_INSTRUCTION_SET

const MemoryLoops& memory_loops_for(Isa isa) {
  switch (set_of_all_kernels(isa)) {
#define BASCULE_INSTRUCTION_SET(enumerator, name) \
  case Isa::enumerator:                           \
    return name::kMemoryLoops;
#include "kernels/isas.inc"
#undef BASCULE_INSTRUCTION_SET
    default: return scalar::kMemoryLoops;
  }
}

std::string read_of_node(int node) { return "read of memory node " + std::to_string(node); }
std::string cores_of_node(int node) { return "cores of node " + std::to_string(node); }

namespace {

enum class Way { kRead, kWrite, kCopy, kWriteAround };
constexpr std::pair<Way, const char*> kWays[] = {
    {Way::kRead, "read"}, {Way::kWrite, "write"}, {Way::kCopy, "copy"}, {Way::kWriteAround, "write around caches"}};

// A copy's bytes count twice: read and written.
constexpr std::size_t kBlock = std::size_t{1} << 20;

class MemoryItem : public Item {
 public:
  explicit MemoryItem(Workbench& bench) : bench_(bench), loops_(memory_loops_for(bench.isa())) {
    for (const auto& [way, name] : kWays) {
      for (const int core : bench.cores()) probe(name, "GB/s", core, [this, w = way] { return alone(w); });
      probe(name, "GB/s", -1, [this, w = way] { return together(w); });
    }
    for (const Workbench::NodeArena& reader : bench.node_arenas()) {
      for (const Workbench::NodeArena& read : bench.node_arenas()) {
        Probe& one =
            probe(read_of_node(read.node), "GB/s", -1, [this, &reader, &read] { return read_node(reader, read); });
        one.place = cores_of_node(reader.node);
      }
    }
  }

 private:
  // Block b of one half, copied to the other half; the next call goes on behind it, where the caches hold nothing of
  // it.
  double move(Way way, std::size_t block) const {
    const std::size_t half = bench_.memory_bytes() / 2, blocks = half / kBlock;
    std::byte* const at = bench_.memory() + block % (2 * blocks) * kBlock;
    std::byte* const from = bench_.memory() + half + block % blocks * kBlock;
    switch (way) {
      case Way::kRead: loops_.read(at, kBlock); return kBlock;
      case Way::kWrite: loops_.write(at, kBlock); return kBlock;
      case Way::kWriteAround: loops_.write_around_caches(at, kBlock); return kBlock;
      case Way::kCopy: loops_.copy(from - half, from, kBlock); return 2.0 * kBlock;
    }
    return 0.0;
  }

  double alone(Way way) {
    double bytes = 0.0;
    const double seconds = seconds_of(bench_, [&] {
      bytes = 0.0;
      for (int i = 0; i < 16; ++i) bytes += move(way, next_++);
    });
    return bytes * 1e-9 / seconds;
  }

  double together(Way way) {
    const std::int64_t tasks = std::int64_t{32} * bench_.core_count();
    const double seconds = seconds_of(bench_, [&] {
      bench_.share(tasks, [&](std::int64_t task, int) { move(way, next_ + static_cast<std::size_t>(task)); });
      next_ += static_cast<std::size_t>(tasks);
    });
    return static_cast<double>(tasks) * static_cast<double>(kBlock) * (way == Way::kCopy ? 2.0 : 1.0) * 1e-9 / seconds;
  }

  // The arena of one node, by the cores of another, or its own.
  double read_node(const Workbench::NodeArena& reader, const Workbench::NodeArena& read) {
    constexpr std::size_t kBlocks = 16;  // of each thread
    const std::size_t threads = reader.threads.size(), all = bench_.node_arena_bytes() / kBlock;
    const double seconds = seconds_of(bench_, [&] {
      bench_.on_each_core([&](int thread) {
        const auto at = std::find(reader.threads.begin(), reader.threads.end(), thread);
        if (at == reader.threads.end()) return;
        std::size_t block = next_ + static_cast<std::size_t>(at - reader.threads.begin());
        for (std::size_t i = 0; i < kBlocks; ++i, block += threads)
          loops_.read(read.memory.get() + block % all * kBlock, kBlock);
      });
      next_ += kBlocks * threads;
    });
    return static_cast<double>(kBlocks * threads * kBlock) * 1e-9 / seconds;
  }

  Workbench& bench_;
  const MemoryLoops& loops_;
  std::size_t next_ = 0;
};

// Each line says which line is next: a walk through all lines of a power of two in an order that no prefetcher guesses
// (a linear congruential generator of full period).
class LatencyItem : public Item {
 public:
  explicit LatencyItem(Workbench& bench) : bench_(bench) {
    const int core = bench.cores().front();
    for (const CacheFacts& cache : read_caches()) {
      const std::vector<std::int64_t> cores = numbers_of_list(cache.cores);
      if (!cache.level || !cache.bytes || cache.type == "Instruction") continue;
      if (std::find(cores.begin(), cores.end(), core) == cores.end()) continue;
      add_walk("L" + std::to_string(*cache.level), static_cast<std::size_t>(*cache.bytes) / 2, core);
    }
    add_walk("memory", bench.memory_bytes(), core);
    for (std::size_t i = 1; i < bench.cores().size(); ++i) {
      const int other = bench.cores()[i];
      Probe& one = probe("core to core", "ns", core, [this, other] { return ping(other); });
      one.place = std::to_string(core) + " and " + std::to_string(other);
      one.waits = true;
    }
  }

 private:
  struct alignas(64) Line {
    const Line* next;
  };

  void add_walk(const std::string& name, std::size_t bytes, int core) {
    std::uint64_t lines = 1;
    while (2 * lines * sizeof(Line) <= std::min(bytes, bench_.memory_bytes())) lines *= 2;
    probe(name, "ns", core, [this, lines] { return walk(lines); });
  }

  double walk(std::uint64_t lines) {
    Line* const line = static_cast<Line*>(static_cast<void*>(bench_.memory()));
    for (std::uint64_t i = 0; i < lines; ++i)
      line[i].next = line + ((i * 2862933555777941757u + 3037000493u) & (lines - 1));
    constexpr int kSteps = 20000;
    const Line* at = line;
    const double seconds = seconds_of(bench_, [&] {
      for (int i = 0; i < kSteps; ++i) at = at->next;
      asm volatile("" ::"r"(at));
    });
    return seconds / kSteps * 1e9;
  }

  // Half of the time that a number needs to another core and back.
  double ping(int other) {
    constexpr int kTurns = 2000;
    std::atomic<int> ball{0};
    std::thread answerer([&] {
      bench_.move_to(other);
      for (int i = 0; i < kTurns; ++i) {
        while (ball.load(std::memory_order_acquire) != 2 * i + 1) spin_pause();
        ball.store(2 * i + 2, std::memory_order_release);
      }
    });
    double began = 0.0;
    for (int i = 0; i < kTurns; ++i) {
      if (i == kTurns / 10) began = monotonic_seconds();  // both are awake
      ball.store(2 * i + 1, std::memory_order_release);
      while (ball.load(std::memory_order_acquire) != 2 * i + 2) spin_pause();
    }
    const double seconds = monotonic_seconds() - began;
    answerer.join();
    constexpr std::int64_t kMeasured = kTurns - kTurns / 10;
    return seconds / kMeasured / 2 * 1e9;
  }

  Workbench& bench_;
};

class PageItem : public Item {
 public:
  explicit PageItem(Workbench& bench) {
    const int core = bench.cores().front();
    probe("first touch, 4 KiB pages", "GB/s", core, [] { return touch(HugePages::kOff); });
    probe("first touch, large pages", "GB/s", core, [] { return touch(HugePages::kTransparent); });
    Probe& one = probe("locked", "MiB", core, [] { return locked(); });
    one.place = "";
    one.waits = true;
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{64} << 20;

  static double touch(HugePages pages) {
    const MappedMemory owned(map_memory(kBytes, pages), Unmap{kBytes});
    std::byte* const memory = owned.get();
    if (memory == nullptr) return 0.0;
    const double began = monotonic_seconds();
    for (std::size_t at = 0; at < kBytes; at += kPage) memory[at] = std::byte{1};
    return static_cast<double>(kBytes) * 1e-9 / (monotonic_seconds() - began);
  }

  // As much of kBytes as this process may lock.
  static double locked() {
    const MappedMemory memory(map_memory(kBytes, HugePages::kOff), Unmap{kBytes});
    if (memory == nullptr) return 0.0;
    std::size_t bytes = kBytes;
    while (bytes >= kPage && mlock(memory.get(), bytes) != 0) bytes /= 2;
    return bytes >= kPage ? static_cast<double>(bytes) / (1 << 20) : 0.0;
  }
};

}  // namespace

std::unique_ptr<Item> make_memory_item(Workbench& bench) { return std::make_unique<MemoryItem>(bench); }
std::unique_ptr<Item> make_latency_item(Workbench& bench) { return std::make_unique<LatencyItem>(bench); }
std::unique_ptr<Item> make_page_item(Workbench& bench) { return std::make_unique<PageItem>(bench); }

}  // namespace bascule
