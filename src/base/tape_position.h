// SPDX-License-Identifier: Apache-2.0
// How far a rank has come on the tape that computes the gradients of an update. Other threads and, where it lies in
// shared memory, other processes learn from it which gradients are final: this word releases the buckets of `ddp`.
// Plain data and atomics that may start as zero; no call allocates.
//
//   position.begin_gradients(update);   // before the last micro-batch of an update
//   position.reach(operations);         // by thread 0, after each operation of the tape
//   position.end_gradients();           // what is replayed from here on releases nothing
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/span.h"

namespace bascule {

struct alignas(kCacheLine) TapePosition {
  // By one thread at a time.
  void begin_gradients(std::int64_t update) noexcept { origin = update * kUpdate; }
  void end_gradients() noexcept { origin += kUpdate / 2; }
  // A reader that sees the position also sees everything written before.
  void reach(std::int64_t operations) noexcept { word.store(origin + operations, std::memory_order_release); }

  // By anybody. Whether that many operations of the last micro-batch of the update are done, or more.
  bool has_reached(std::int64_t update, std::int64_t operations) const noexcept {
    return word.load(std::memory_order_acquire) >= update * kUpdate + operations;
  }
  // Operations done of the tape that was replayed last, whichever it is.
  std::int64_t operation() const noexcept { return word.load(std::memory_order_relaxed) % (kUpdate / 2); }

  // The word counts an update as so many operations, further than any tape is long: it only grows.
  static constexpr std::int64_t kUpdate = std::int64_t{1} << 24;
  std::atomic<std::int64_t> word{0};
  std::int64_t origin = 0;
};

}  // namespace bascule
