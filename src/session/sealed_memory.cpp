// SPDX-License-Identifier: Apache-2.0
#include "src/session/sealed_memory.h"

#include <algorithm>
#include <cstddef>

#include "src/base/span.h"

namespace bascule {

SealedMemory::SealedMemory(const MemoryPlan& plan, HugePages pages, Group& group)
    : pages_(pages),
      shared_(plan.shared_bytes > 0 ? group.share(plan.shared_bytes, pages) : SharedMemory()),
      arena_(plan, pages, shared_.data()) {}

void SealedMemory::touch(StartWork* work, Threads& threads, Group& group) const {
  // First, and so ahead of the weights, which lie at its beginning: reading then meets pages of the better kind. Where
  // threads are of several groups, the later ones may read before that, which costs some speed.
  work->touch(arena_.memory(), arena_.huge_pages(), false);
  const std::size_t ranks = static_cast<std::size_t>(group.local_size());
  if (ranks == 1 || shared_.bytes() == 0) return work->touch(shared_.memory(), pages_, true);
  const std::size_t part = align_up(divide_up(shared_.bytes(), ranks), kHugePage);
  const std::size_t begin = std::min(part * static_cast<std::size_t>(group.local_rank()), shared_.bytes());
  const std::size_t end = std::min(begin + part, shared_.bytes());
  work->touch(shared_.memory().subspan(begin, end - begin), pages_, true);
  work->run(threads);
  meet(group, "memory");
  work->touch(shared_.memory().first(begin), pages_, true);
  work->touch(shared_.memory().subspan(end, shared_.bytes() - end), pages_, true);
}

void SealedMemory::lock() const {
  arena_.lock();
  if (shared_.bytes() > 0) shared_.lock();
}

void SealedMemory::say_small_pages(void (*say)(const std::string& line)) const {
  if (pages_ == HugePages::kOff) return;
  if (pages_ == HugePages::kReserved && arena_.huge_pages() != pages_)
    say("memory: the reserved large pages do not suffice (see vm.nr_hugepages): using transparent ones");
  const HugePageBytes large = huge_page_bytes();
  const auto check = [&](const char* name, std::size_t bytes, std::size_t in_large, const char* file) {
    if (in_large >= bytes / 2 / kHugePage * kHugePage) return;
    say(std::string(name) + ": only " + std::to_string(in_large >> 20) + " of " + std::to_string(bytes >> 20) +
        " MiB are in large pages: this system has no more of them, or is slow to provide them (see "
        "/sys/kernel/mm/transparent_hugepage/" +
        file + ")");
  };
  check("memory", arena_.memory().size(), large.anonymous, "enabled");
  check("shared memory", shared_.bytes(), large.shared, "shmem_enabled");
}

}  // namespace bascule
