// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "src/base/align.h"
#include "src/base/error.h"
#include "src/base/small_file.h"

namespace bascule {

Arena::Arena(const MemoryPlan& plan, const ArenaOptions& options, std::byte* shared)
    : shared_(shared), bytes_(std::max(plan.arena_bytes, kPage)) {
  const std::string size = std::to_string(bytes_ >> 20) + " MiB";
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(ErrorKind::kMemory, "arena", "cannot map " + size + ": " + std::strerror(errno), "see `bascule plan`");
  }
  base_ = static_cast<std::byte*>(memory);
  if (options.huge_pages) madvise(memory, bytes_, MADV_HUGEPAGE);
  for (std::size_t offset = 0; offset < bytes_; offset += kPage) base_[offset] = std::byte{0};
  if (options.lock_memory && mlock(memory, bytes_) != 0) {
    const int reason = errno;
    munmap(memory, bytes_);
    throw Error(ErrorKind::kMemory, "machine.lock_memory", "cannot lock " + size + ": " + std::strerror(reason),
                "raise the limit (ulimit -l)");
  }
}

Arena::~Arena() { munmap(base_, bytes_); }

std::size_t resident_bytes() noexcept {
  char text[4096];
  if (!read_small_file("/proc/self/smaps_rollup", text)) return 0;
  const char* pss = std::strstr(text, "\nPss:");
  return pss == nullptr ? 0 : static_cast<std::size_t>(std::strtoull(pss + 5, nullptr, 10)) * 1024;
}

}  // namespace bascule
