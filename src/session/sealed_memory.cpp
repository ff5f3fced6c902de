// SPDX-License-Identifier: Apache-2.0
#include "src/session/sealed_memory.h"

#include <algorithm>
#include <cstddef>

#include "src/base/error.h"
#include "src/base/mapped_memory.h"

namespace bascule {

SealedMemory::SealedMemory(const MemoryPlan& plan, HugePages pages, Group& group)
    : pages_(pages),
      near_(nodes_of_own_cores()),
      shared_(plan.shared_bytes > 0 ? group.share(plan.shared_bytes, pages) : SharedMemory()),
      arena_(plan, pages, shared_.data()) {}

// In whole large pages, where there may be any: neighbours round the bound between them to the same place.
void SealedMemory::keep_near(const std::vector<Span<std::byte>>& own, Group& group) const {
  if (shared_.bytes() == 0) return;
  const std::size_t unit = pages_ == HugePages::kOff ? kPage : kHugePage;
  const auto place_of = [&](const std::byte* at) {
    return std::min((static_cast<std::size_t>(at - shared_.data()) + unit / 2) / unit * unit, shared_.bytes());
  };
  for (const Span<std::byte>& part : own) {
    const std::size_t begin = place_of(part.begin()), end = place_of(part.end());
    keep_at_nodes(shared_.data() + begin, end - begin, near_);
  }
  meet(group, "memory");  // nobody touches what another has not placed yet
}

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
  // As the others have touched it: large pages formed anew of small ones, which lie at all nodes in turn, would all lie
  // at the first.
  work->touch(shared_.memory().first(begin), HugePages::kOff, true);
  work->touch(shared_.memory().subspan(end, shared_.bytes() - end), HugePages::kOff, true);
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

void SealedMemory::say_far_pages(void (*say)(const std::string& line)) const {
  constexpr double kMuch = 0.1;
  const double share = share_elsewhere(arena_.memory().data(), arena_.memory().size(), near_).value_or(0.0);
  if (share < kMuch) return;
  say(
      formatted("memory: %.0f %% of it lies at memory nodes whose cores are not used: the others have too little free "
                "(see `bascule bringup`)",
                100.0 * share));
}

}  // namespace bascule
