// SPDX-License-Identifier: Apache-2.0
#include "src/base/mapped_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "src/base/memory_nodes.h"
#include "src/base/span.h"

namespace bascule {
namespace {

// Newer than the headers that we build with.
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14
constexpr int kCollapse = 25;       // MADV_COLLAPSE, Linux 6.1

std::uintptr_t address_of(const std::byte* byte) noexcept { return reinterpret_cast<std::uintptr_t>(byte); }

// A write of nothing, which does not disturb what another thread or process puts there.
void touch_page(std::byte* page) noexcept {
  __atomic_fetch_or(static_cast<unsigned char*>(static_cast<void*>(page)), static_cast<unsigned char>(0),
                    __ATOMIC_RELAXED);
}

// Every whole large page of the range, from one small page: at once a large one if the system forms them. The large one
// lies on the node of the small one, and the small ones of memory that is spread over nodes (memory_nodes.h) lie there
// by turns; so each large page begins with another one.
void collapse_pages(std::byte* begin, std::byte* end) noexcept {
  std::byte* page = begin + (kHugePage - address_of(begin) % kHugePage) % kHugePage;
  for (; page < end && static_cast<std::size_t>(end - page) >= kHugePage; page += kHugePage) {
    touch_page(page + address_of(page) / kHugePage % (kHugePage / kPage) * kPage);
    if (madvise(page, kHugePage, kCollapse) != 0 && errno == EINVAL) return;  // not by this system
  }
}

}  // namespace

std::byte* map_memory(std::size_t bytes, HugePages pages, int descriptor) noexcept {
  const std::size_t reserved = bytes + kHugePage;
  void* const addresses = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (addresses == MAP_FAILED) return nullptr;
  std::byte* const first = static_cast<std::byte*>(addresses);
  const std::size_t before = (kHugePage - address_of(first) % kHugePage) % kHugePage;
  std::byte* const begin = first + before;
  const int kind = descriptor >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  const int from_pool = pages == HugePages::kReserved && descriptor < 0 ? MAP_HUGETLB : 0;
  if (mmap(begin, bytes, PROT_READ | PROT_WRITE, MAP_FIXED | kind | from_pool, descriptor, 0) == MAP_FAILED) {
    const int reason = errno;
    munmap(addresses, reserved);
    errno = reason;
    return nullptr;
  }
  std::byte* const end = begin + align_up(bytes, kPage);
  if (before > 0) munmap(first, before);
  if (first + reserved > end) munmap(end, static_cast<std::size_t>(first + reserved - end));
  spread_over_nodes(begin, bytes, descriptor >= 0 ? NodeSharing::kAllRanks : NodeSharing::kOwnThreads);
  if (pages == HugePages::kTransparent) madvise(begin, bytes, MADV_HUGEPAGE);
  if (pages == HugePages::kOff) madvise(begin, bytes, MADV_NOHUGEPAGE);
  return begin;
}

void Unmap::operator()(std::byte* memory) const noexcept { munmap(memory, bytes); }

int touch_memory(std::byte* begin, std::size_t bytes, bool collapse) noexcept {
  std::byte* const first = begin - address_of(begin) % kPage;
  std::byte* const end = begin + bytes;
  if (bytes == 0) return 0;
  if (collapse) collapse_pages(first, end);
  if (madvise(first, align_up(static_cast<std::size_t>(end - first), kPage), kPopulateWrite) == 0) return 0;
  if (errno != EINVAL) return errno;
  for (std::byte* page = first; page < end; page += kPage) touch_page(page);  // an older kernel
  return 0;
}

int touch_small_pages(std::byte* begin, std::size_t bytes) noexcept {
  madvise(begin, bytes, MADV_NOHUGEPAGE);
  const int reason = touch_memory(begin, bytes, false);
  madvise(begin, bytes, MADV_HUGEPAGE);
  return reason;
}

bool PagePace::prefers_large() const noexcept {
  constexpr std::int64_t kSlow = 1'000'000;  // a second a GiB: three times what zeroing takes
  const std::int64_t large = large_ns_.load(std::memory_order_relaxed);
  const std::int64_t small = small_ns_.load(std::memory_order_relaxed);
  return large < kSlow || (small > 0 && large <= 2 * small);
}

void PagePace::note(bool large, std::size_t bytes, std::int64_t nanoseconds) noexcept {
  const std::int64_t mib = std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes >> 20));
  (large ? large_ns_ : small_ns_).store(std::max<std::int64_t>(1, nanoseconds / mib), std::memory_order_relaxed);
}

}  // namespace bascule
