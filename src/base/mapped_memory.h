// SPDX-License-Identifier: Apache-2.0
// Memory mapped in large pages, and touched: what arenas and the memory that ranks share have in common. Before the
// seal; allocates nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace bascule {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

enum class HugePages {
  kTransparent,  // the system forms them as memory is touched
  kReserved,     // from the pool that an administrator has reserved (vm.nr_hugepages)
  kOff
};

// Maps `bytes` (kReserved: a multiple of kHugePage) from a large page's bound on, so that only the end that does not
// fill a large page takes small ones: anonymous memory, or with a descriptor that file, shared. nullptr and errno where
// the system refuses, as it does with kReserved if the pool is too small. munmap() undoes it.
std::byte* map_memory(std::size_t bytes, HugePages pages, int descriptor = -1) noexcept;

// Memory that goes back to the system with its owner.
struct Unmap {
  std::size_t bytes = 0;
  void operator()(std::byte* memory) const noexcept;
};
using MappedMemory = std::unique_ptr<std::byte, Unmap>;

// Makes the pages of a range resident and maps them here, so that no later access faults; its bytes stay as they are.
// Threads may touch ranges of one mapping at the same time. collapse: also asks for large pages where the system
// forms none by itself, as is the default for shared memory (Linux 6.1). 0, or errno where the system refuses.
int touch_memory(std::byte* begin, std::size_t bytes, bool collapse) noexcept;
// The same in small pages, though the mapping is kTransparent and anonymous. The system may form large ones later.
int touch_small_pages(std::byte* begin, std::size_t bytes) noexcept;

// Which pages to touch next. Large ones are quicker, but not everywhere: the host of a virtual machine may have taken
// back the memory that they consist of, and then needs seconds a GiB to return it, while scattered small pages are
// still there. So large pages are taken unless they are much slower than zeroing them would be, and than small ones.
// Any thread may ask and tell at any time.
class PagePace {
 public:
  bool prefers_large() const noexcept;
  // Notes how long a core took to touch a range.
  void note(bool large, std::size_t bytes, std::int64_t nanoseconds) noexcept;

 private:
  // The time per MiB of the last range; 0: unknown.
  std::atomic<std::int64_t> large_ns_{0}, small_ns_{0};
};

}  // namespace bascule
