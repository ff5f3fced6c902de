// SPDX-License-Identifier: Apache-2.0
// The workers of a service, and the one queue from which each takes its next batch as soon as it is free.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/isa.h"
#include "src/base/span.h"
#include "src/runtime/arena.h"
#include "src/runtime/start_work.h"
#include "src/runtime/threads.h"
#include "src/serve/batch_answerer.h"
#include "src/serve/recorded_service.h"
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

// In the order in which they came. The memory is fixed; one thread at a time.
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

// The part of the inputs, of which there is at least one, that a worker measures with. With fewer inputs than workers
// several share a part, and take turns.
struct MeasuredPart {
  std::size_t part = 0, first = 0, count = 0;
};

inline MeasuredPart part_to_measure(std::size_t worker, std::size_t workers, std::size_t inputs) noexcept {
  const std::size_t at_once = std::min(workers, inputs), part = worker % at_once, first = inputs * part / at_once;
  return {part, first, inputs * (part + 1) / at_once - first};
}

class BatchWorker;

// What takes how long: nanoseconds of a row of a batch, and of a text that is written beside others the rows in whose
// time it gets a token.
struct BatchPace {
  double row_ns = 0.0, rows_of_token = 0.0;
};

// What the workers and the thread of the service share, behind one mutex. What is set before the seal needs none.
struct SharedWork {
  explicit SharedWork(std::size_t most_inputs) : queue(most_inputs) { done.reserve(most_inputs); }

  // Set before the seal.
  Span<ServedInput> inputs;  // by number
  TextRoom room;
  BatchPace pace;
  std::int64_t queue_timeout_ns = 0;
  std::function<void()> wake;  // called when answers are there

  std::mutex mutex;
  std::condition_variable changed;  // for the workers
  InputQueue queue;
  std::vector<std::uint32_t> done;
  std::int64_t running_rows = 0;  // of all workers
  std::size_t idle = 0;           // workers that wait
  std::uint64_t batches = 0;
  bool stops = false;
  // Before the seal: what each worker calls once, how often there was such a call, and how many have not come back from
  // it.
  const std::function<void(BatchWorker&)>* call = nullptr;
  std::size_t calls = 0, calling = 0;
  std::exception_ptr error;  // the first
  std::condition_variable called;
};

// Rows of a batch that take as long as the input.
std::int64_t cost_of(const ServedModel& model, const BatchPace& pace, const ServedInput& input) noexcept;

// A thread that takes batches of inputs and answers them, with an arena and compute threads of its own, on the cores of
// its group.
class BatchWorker : NonCopyable {
 public:
  // service, work: outlive this. number: of the service's workers.
  BatchWorker(const RecordedService& service, std::size_t number, SharedWork& work);
  // SharedWork::stops, and all inputs have been answered.
  ~BatchWorker() { thread_.join(); }

  std::size_t number() const { return number_; }

  // Before the seal, in its thread (BatchWorkers::each). Throw Error and std::system_error.

  // Starts its compute threads, and maps its arena; shared: what all arenas share, or null.
  void map(std::byte* shared);
  const Arena& arena() const { return *arena_; }
  Threads& threads() { return *threads_; }
  // After the session's seal with the arena.
  void open(const Tapes& tapes);
  // Runs batches of these inputs, and answers one: the later ones find pages and caches as it does. Throws where the
  // model's numbers are not finite.
  BatchPace measure(Span<ServedInput> inputs);

  // For how long the batch that runs has been running; 0: none is. Any thread.
  std::int64_t running_ms() const noexcept;

 private:
  void live() noexcept;
  void answer_call(std::unique_lock<std::mutex>* lock) noexcept;
  double row_ns_of(Span<ServedInput> inputs, bool has_text, bool has_picture);
  double measure_step(double row_ns) noexcept;
  void take() noexcept;
  void run(std::unique_lock<std::mutex>* lock) noexcept;
  void write(std::unique_lock<std::mutex>* lock) noexcept;
  void set_running(std::int64_t rows) noexcept;
  std::int64_t cost(const ServedInput& input) const noexcept { return cost_of(model_, work_.pace, input); }
  void mark_ended(ServedInput* input, std::int64_t now) noexcept;

  const RecordedService& service_;
  const ServedModel& model_;
  const std::size_t number_;
  SharedWork& work_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Threads> threads_;
  std::unique_ptr<BatchAnswerer> answerer_;
  TakenInputs taken_;
  std::vector<ServedInput*> batch_;
  std::vector<ServedInput*> writing_;  // texts, in slots
  std::int64_t running_rows_ = 0;
  std::atomic<std::int64_t> running_since_ms_{0};
  std::thread thread_;
};

// They share the model and its weights; what a batch is computed in is each one's own.
class BatchWorkers : NonCopyable {
 public:
  // Starts the threads, maps the arenas, and seals the service's session. wake: called by any of the threads when
  // answers are there. Throws Error, std::system_error.
  BatchWorkers(RecordedService& service, Isa isa, std::function<void()> wake);
  // All inputs have been answered.
  ~BatchWorkers();

  // Before the seal.

  // Loads nothing, but makes all workers' memory resident, while `load` runs in the first one's thread.
  void fill_memory(const std::function<void(StartWork*, Threads&)>& load);
  const Arena& arena() const { return workers_.front()->arena(); }  // has what is shared, too
  // Makes them ready for these inputs, which are the service's and outlive this: they run batches at the same time, by
  // which it is known how long one takes. Sets how large they may be, where the answers to a batch shall come within
  // bound_ms (0: no bound). A token that is written takes the time of a number of rows.
  void measure(Span<ServedInput> inputs, double bound_ms);
  const TextRoom& room() const { return work_.room; }
  double row_ns() const { return work_.pace.row_ns; }

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
  // Of the batches that run, for how long the oldest has been running; 0: none does.
  std::int64_t running_ms() const noexcept;
  std::uint64_t batches() noexcept;

 private:
  void each(const std::function<void(BatchWorker&)>& call);
  void end() noexcept;

  RecordedService& service_;
  SharedWork work_;
  std::unique_ptr<Arena> shared_;  // null: one worker's arena has everything
  std::vector<std::unique_ptr<BatchWorker>> workers_;
};

}  // namespace bascule
