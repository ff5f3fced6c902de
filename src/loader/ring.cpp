// SPDX-License-Identifier: Apache-2.0
#include "src/loader/ring.h"

#include "src/base/check.h"
#include "src/base/futex.h"

namespace bascule {

// A waiter announces itself before the kernel compares the count; a raiser changes the count before it looks for
// waiters. All in one total order, so one of the two sees the other.
void Event::raise() noexcept {
  count_.fetch_add(1);
  if (sleepers_.load() > 0) futex_wake_all(count_, FutexReach::kProcess);
}

void Event::wait_beyond(std::uint32_t seen) noexcept {
  sleepers_.fetch_add(1);
  if (count_.load() == seen) futex_wait(count_, seen, FutexReach::kProcess);
  sleepers_.fetch_sub(1);
}

namespace {

constexpr int kSampleBits = 20;
constexpr std::uint64_t kSampleMask = (std::uint64_t{1} << kSampleBits) - 1;
constexpr std::uint64_t kHalted = ~std::uint64_t{0};

constexpr std::uint64_t first_claim(std::int64_t number) { return static_cast<std::uint64_t>(number) << kSampleBits; }

}  // namespace

Ring::Ring(const BatchOrder& order, std::int64_t slots)
    : order_(order), slots_(slots), state_(new SlotState[static_cast<std::size_t>(slots)]), next_claim_(kHalted) {
  BASCULE_CHECK(slots >= 1 && order.max_samples() < static_cast<std::int64_t>(kSampleMask));
}

// An attempt is counted before it reads next_claim_, so once that says "halted" and nobody is counted, nobody holds an
// older value of it either.
void Ring::halt() noexcept {
  next_claim_.store(kHalted);
  for (;;) {
    const std::uint32_t seen = progress_.count();
    if (under_way_.load() == 0) break;
    progress_.wait_beyond(seen);
  }
  for (std::int64_t i = 0; i < slots_; ++i) state_[static_cast<std::size_t>(i)].ready.store(false);
}

void Ring::begin(std::int64_t first) noexcept {
  BASCULE_CHECK(next_claim_.load() == kHalted);
  open_end_.store(first);
  next_claim_.store(first_claim(first));
}

void Ring::open(std::int64_t number) noexcept {
  BASCULE_CHECK(number == open_end_.load());
  SlotState& slot = state_[slot_of(number)];
  const std::int64_t samples = order_.place(number).count;
  slot.unfinished.store(samples);
  slot.ready.store(samples == 0);
  open_end_.store(number + 1);
}

bool Ring::is_ready(std::int64_t number) const noexcept { return state_[slot_of(number)].ready.load(); }

void Ring::await(std::int64_t number) noexcept {
  is_awaited_.store(true);
  for (;;) {
    const std::uint32_t seen = progress_.count();
    if (is_ready(number)) break;
    progress_.wait_beyond(seen);
  }
  is_awaited_.store(false);
}

bool Ring::try_claim(SampleClaim* claim) noexcept {
  under_way_.fetch_add(1);
  std::uint64_t next = next_claim_.load();
  while (next != kHalted) {
    const std::int64_t number = static_cast<std::int64_t>(next >> kSampleBits);
    const std::int64_t sample = static_cast<std::int64_t>(next & kSampleMask);
    if (number >= open_end_.load()) break;
    const bool exhausted = sample >= order_.place(number).count;
    const std::uint64_t after = exhausted ? first_claim(number + 1) : next + 1;
    if (!next_claim_.compare_exchange_weak(next, after)) continue;
    if (!exhausted) {
      *claim = SampleClaim{number, sample};
      return true;
    }
    next = after;
  }
  end_claim();
  return false;
}

bool Ring::finish_sample(std::int64_t number) noexcept { return state_[slot_of(number)].unfinished.fetch_sub(1) == 1; }

void Ring::publish(std::int64_t number) noexcept {
  BASCULE_CHECK(!state_[slot_of(number)].ready.exchange(true));
  progress_.raise();
}

void Ring::end_claim() noexcept {
  if (under_way_.fetch_sub(1) == 1 && next_claim_.load() == kHalted) progress_.raise();
}

}  // namespace bascule
