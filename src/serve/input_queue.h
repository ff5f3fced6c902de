// SPDX-License-Identifier: Apache-2.0
// Inputs that wait for a batch, in the order in which they came. The memory is fixed; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/session/packed_batch.h"

namespace bascule {

// An input, its rows of a batch, and what it takes in all, as so many rows.
struct WaitingInput {
  std::uint32_t input = 0;
  std::int64_t rows = 0, selected = 0, cost = 0;
};

// Of a batch: the inputs that run, and those that nobody waits for any more.
struct TakenInputs {
  std::vector<std::uint32_t> running, dropped;  // numbers of inputs; with room for all
};

class InputQueue {
 public:
  // Before the seal.
  explicit InputQueue(std::size_t most_inputs) : waiting_(most_inputs) {}

  bool is_empty() const noexcept { return count_ == 0; }
  std::size_t inputs() const noexcept { return count_; }
  std::int64_t cost() const noexcept { return cost_; }  // of all that wait

  // There is room.
  void push(const WaitingInput& input) noexcept {
    waiting_[(first_ + count_++) % waiting_.size()] = input;
    cost_ += input.cost;
  }

  // Takes from the front what one batch holds: at least one input, none before its turn. is_dropped(input): it is
  // taken, and not run.
  template <typename IsDropped>
  void take(const TextRoom& room, const IsDropped& is_dropped, TakenInputs* taken) noexcept {
    taken->running.clear();
    taken->dropped.clear();
    std::int64_t rows = 0, selected = 0;
    while (count_ > 0) {
      const WaitingInput& next = waiting_[first_];
      const bool is_idle = is_dropped(next.input);
      const bool is_first = taken->running.empty();
      const bool fits = static_cast<std::int64_t>(taken->running.size()) < room.texts &&
                        rows + next.rows <= room.tokens && selected + next.selected <= room.selected;
      if (!is_idle && !is_first && !fits) return;
      (is_idle ? taken->dropped : taken->running).push_back(next.input);
      if (!is_idle) {
        rows += next.rows;
        selected += next.selected;
      }
      cost_ -= next.cost;
      first_ = (first_ + 1) % waiting_.size();
      --count_;
    }
  }

 private:
  std::vector<WaitingInput> waiting_;  // a ring
  std::size_t first_ = 0, count_ = 0;
  std::int64_t cost_ = 0;
};

// After how many rows' time a request is answered that has `own` rows, where so many workers have `before` rows to
// compute: these are shared out among them, its own are computed by one.
inline double rows_until_answered(std::int64_t before, std::int64_t own, std::size_t workers) noexcept {
  return static_cast<double>(before) / static_cast<double>(workers) + static_cast<double>(own);
}

}  // namespace bascule
