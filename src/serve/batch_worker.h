// SPDX-License-Identifier: Apache-2.0
// The thread that computes: takes inputs from the queue, as many as a batch holds, without waiting for more, and runs
// them. Its constructor belongs before the seal; the rest allocates nothing.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "src/base/span.h"
#include "src/serve/served_model.h"

namespace bascule {

// Inputs that wait for a batch, in the order in which they came. The memory is fixed; one thread at a time.

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

class BatchWorker {
 public:
  // inputs: of the service, by number; outlive this. wake: called by the thread when answers are there.
  BatchWorker(ServedModel& model, Span<ServedInput> inputs, std::int64_t queue_timeout_ns, std::function<void()> wake);
  // All inputs have been answered.
  ~BatchWorker();
  BatchWorker(const BatchWorker&) = delete;
  BatchWorker& operator=(const BatchWorker&) = delete;

  // Before the seal, and before anything is admitted: runs batches of that room, and sets how large they may be, where
  // the answers to a batch shall come within bound_ms (0: no bound). Returns the nanoseconds of a row. A token that is
  // written takes the time of a number of rows.
  double measure(const TextRoom& room, double bound_ms);
  const TextRoom& room() const { return room_; }

  // The service's thread.

  // Nanoseconds until inputs that come now would be computed; first: null: none.
  double predicted_wait_ns(const ServedInput* first) noexcept;
  // The inputs of a request, for which there is room.
  void admit(ServedInput* first) noexcept;
  // Those that have not begun are left out.
  void drop(ServedInput* first) noexcept;
  // Moves finished inputs, those that were left out among them. Returns how many.
  std::size_t take_done(Span<std::uint32_t> numbers) noexcept;
  std::size_t waiting() noexcept;
  // For how long the batch that runs has been running; 0: none is.
  std::int64_t running_ms() const noexcept;
  std::uint64_t batches() const noexcept { return batches_.load(std::memory_order_relaxed); }

 private:
  void work() noexcept;
  void run(std::unique_lock<std::mutex>* lock) noexcept;
  void write(std::unique_lock<std::mutex>* lock) noexcept;
  void take() noexcept;
  double row_ns_of(bool has_text, bool has_picture);
  void measure_step() noexcept;
  std::int64_t cost(const ServedInput& input) const noexcept;
  void mark_ended(ServedInput* input, std::int64_t now) noexcept;

  ServedModel& model_;
  const Span<ServedInput> inputs_;
  const std::int64_t queue_timeout_ns_;
  const std::function<void()> wake_;
  TextRoom room_;
  double row_ns_ = 0.0;
  double rows_of_token_ = 0.0;  // of a text that is written beside others
  std::mutex mutex_;
  std::condition_variable changed_;
  InputQueue queue_;
  TakenInputs taken_;
  std::vector<ServedInput*> batch_;
  std::vector<ServedInput*> writing_;  // texts, in slots
  std::vector<std::uint32_t> done_;
  std::int64_t running_rows_ = 0;
  std::atomic<std::uint64_t> batches_{0};
  std::atomic<std::int64_t> running_since_ms_{0};
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace bascule
