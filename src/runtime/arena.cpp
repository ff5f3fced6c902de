// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
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
    throw Error(ErrorKind::kMemory, "arena", "the system refuses " + size + ": " + std::strerror(errno),
                "see `bascule plan`");
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

std::size_t machine_memory_bytes() {
  std::size_t bytes =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto limit_by = [&](const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "re");
    if (file == nullptr) return;
    unsigned long long limit = 0;
    if (std::fscanf(file, "%llu", &limit) == 1 && limit > 0) bytes = std::min(bytes, static_cast<std::size_t>(limit));
    std::fclose(file);
  };
  limit_by("/sys/fs/cgroup/memory/memory.limit_in_bytes");  // version 1
  // Version 2: this process's group ("0::/a/b") and all above it.
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.rfind("0::", 0) != 0) continue;
    for (std::string group = line.substr(3);; group.erase(group.rfind('/'))) {
      limit_by("/sys/fs/cgroup" + group + "/memory.max");
      if (group.empty() || group.rfind('/') == std::string::npos) break;
    }
  }
  return bytes;
}

}  // namespace bascule
