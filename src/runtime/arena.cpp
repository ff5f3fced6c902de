// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "src/base/descriptor.h"
#include "src/base/error.h"

namespace bascule {
namespace {

[[noreturn]] void refuse(const char* where, const char* what, std::size_t bytes, const char* what_to_do) {
  throw Error(ErrorKind::kMemory, where,
              std::string(what) + std::to_string(bytes >> 20) + " MiB: " + std::strerror(errno), what_to_do);
}

// A figure of smaps_rollup in bytes; 0 if it is not there.
std::size_t figure(const char* text, const char* name) noexcept {
  const char* const line = std::strstr(text, name);
  return line == nullptr ? 0 : static_cast<std::size_t>(std::strtoull(line + std::strlen(name), nullptr, 10)) * 1024;
}

}  // namespace

Arena::Arena(const MemoryPlan& plan, HugePages huge_pages, std::byte* shared)
    : shared_(shared), bytes_(std::max(plan.arena_bytes, kPage)), huge_pages_(huge_pages) {
  if (huge_pages == HugePages::kReserved) {
    base_ = map_memory(align_up(bytes_, kHugePage), huge_pages);
    if (base_ != nullptr) {
      bytes_ = align_up(bytes_, kHugePage);
      return;
    }
    huge_pages_ = HugePages::kTransparent;
  }
  base_ = map_memory(bytes_, huge_pages_);
  if (base_ == nullptr) refuse("arena", "cannot map ", bytes_, "see `bascule plan`");
}

void Arena::lock() const {
  if (mlock(base_, bytes_) != 0) refuse("machine.lock_memory", "cannot lock ", bytes_, "raise the limit (ulimit -l)");
}

Arena::~Arena() { munmap(base_, bytes_); }

std::size_t resident_bytes(int sharers) noexcept {
  char text[4096];
  if (!read_small_file("/proc/self/smaps_rollup", text)) return 0;
  return figure(text, "\nPss:") + figure(text, "\nPrivate_Hugetlb:") +
         figure(text, "\nShared_Hugetlb:") / static_cast<std::size_t>(sharers);
}

HugePageBytes huge_page_bytes() noexcept {
  char text[4096];
  if (!read_small_file("/proc/self/smaps_rollup", text)) return {};
  return {figure(text, "\nAnonHugePages:") + figure(text, "\nPrivate_Hugetlb:"),
          figure(text, "\nShmemPmdMapped:") + figure(text, "\nShared_Hugetlb:")};
}

}  // namespace bascule
