// SPDX-License-Identifier: Apache-2.0
// The ring of slots between workers and step, and the event that they wait for.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "src/base/span.h"
#include "src/loader/sampler.h"

namespace bascule {

// Sleeping until something changes, without a lock: a counter that is raised at every change, and a futex under it. No
// call allocates; usable after the seal from any thread.
//
//   const std::uint32_t seen = event.count();
//   if (!condition()) event.wait_beyond(seen);   // a change between the two lines is not lost; look again afterwards

class Event {
 public:
  std::uint32_t count() const noexcept { return count_.load(); }
  // Call after the change: wakes all that wait.
  void raise() noexcept;
  // Returns when count() is not `seen` any more, and sometimes for no reason.
  void wait_beyond(std::uint32_t seen) noexcept;

 private:
  alignas(kCacheLine) std::atomic<std::uint32_t> count_{0};
  std::atomic<std::int32_t> sleepers_{0};
};

// The hand-over between workers and step: which slots are open for filling, which sample is claimed next, which batch
// is ready. It knows numbers only, no contents. Lock-free; nothing allocates after the constructor; all but the
// constructor is for after the seal.
//
// A batch's way: the consumer opens it (its slot's header is written before) | workers claim its samples one by one, in
// order | the one that finishes the last of them completes the batch and publishes it | the consumer takes it, then
// releases it, which frees the slot for batch number + slots.
//
// Consumer functions belong to one thread. Data that a thread wrote before open, finish_sample or publish is visible to
// the threads that take the slot after it.

struct SampleClaim {
  std::int64_t number = 0;  // of the batch
  std::int64_t sample = 0;  // in the batch
};

class Ring {
 public:
  // Before the seal. `order` outlives the ring. slots >= 1.
  Ring(const BatchOrder& order, std::int64_t slots);

  std::int64_t slots() const noexcept { return slots_; }
  std::size_t slot_of(std::int64_t number) const noexcept { return static_cast<std::size_t>(number % slots_); }

  // Consumer. No sample can be claimed any more; returns when none is under way. Then every slot is closed.
  void halt() noexcept;
  // Consumer, after halt (or the constructor): batch `first` is the first to be opened.
  void begin(std::int64_t first) noexcept;
  // Consumer: opens the next batch; its slot's contents are the workers' now. An empty batch is ready at once.
  void open(std::int64_t number) noexcept;
  bool is_ready(std::int64_t number) const noexcept;
  // Consumer: sleeps until the batch, which is open, is ready.
  void await(std::int64_t number) noexcept;
  // True while the consumer sleeps in await.
  bool is_awaited() const noexcept { return is_awaited_.load(); }

  // Workers. True: *claim is theirs, and ends with finish_sample and end_claim.
  bool try_claim(SampleClaim* claim) noexcept;
  // True: that was the last of its batch, and the caller completes the contents and publishes it.
  bool finish_sample(std::int64_t number) noexcept;
  void publish(std::int64_t number) noexcept;
  void end_claim() noexcept;

 private:
  struct alignas(kCacheLine) SlotState {
    std::atomic<std::int64_t> unfinished{0};  // samples
    std::atomic<bool> ready{false};
  };

  const BatchOrder& order_;
  const std::int64_t slots_;
  std::unique_ptr<SlotState[]> state_;
  alignas(kCacheLine) std::atomic<std::uint64_t> next_claim_;  // batch number and sample, or kHalted
  alignas(kCacheLine) std::atomic<std::int64_t> open_end_{0};  // batches below this are open, or have been
  std::atomic<bool> is_awaited_{false};
  alignas(kCacheLine) std::atomic<std::int64_t> under_way_{0};  // claims, and attempts at one
  Event progress_;                                              // raised by workers for the consumer
};

}  // namespace bascule
