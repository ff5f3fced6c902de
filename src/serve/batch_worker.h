// SPDX-License-Identifier: Apache-2.0
// A worker of a service: a thread that takes batches of inputs and answers them, with an arena and compute threads of
// its own, on the cores of its group.
#pragma once

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

#include "src/base/span.h"
#include "src/runtime/arena.h"
#include "src/runtime/threads.h"
#include "src/serve/batch_answerer.h"
#include "src/serve/input_queue.h"
#include "src/serve/recorded_service.h"

namespace bascule {

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
  std::uint64_t batches = 0;
  bool stops = false;
  // Before the seal: what each worker calls once, how often there was such a call, and who has not come back from it.
  const std::function<void(BatchWorker&)>* call = nullptr;
  std::size_t calls = 0, calling = 0;
  std::exception_ptr error;  // the first
  std::condition_variable called;
};

// Rows of a batch that take as long as the input.
std::int64_t cost_of(const ServedModel& model, const BatchPace& pace, const ServedInput& input) noexcept;

class BatchWorker {
 public:
  // service, work: outlive this. number: of the service's workers.
  BatchWorker(const RecordedService& service, std::size_t number, SharedWork& work);
  // SharedWork::stops, and all inputs have been answered.
  ~BatchWorker() { thread_.join(); }
  BatchWorker(const BatchWorker&) = delete;
  BatchWorker& operator=(const BatchWorker&) = delete;

  std::size_t number() const { return number_; }

  // Before the seal, in its thread (BatchWorkers::each). Throw Error and std::system_error.

  // Starts its compute threads, and maps its arena; shared: what all arenas share, or null.
  void map(std::byte* shared);
  const Arena& arena() const { return *arena_; }
  Threads& threads() { return *threads_; }
  // After the session's seal with the arena.
  void open(const Tapes& tapes);
  // Runs batches of these inputs, of which there may be none, and answers one: the later ones find pages and caches as
  // it does. Throws where the model's numbers are not finite.
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

}  // namespace bascule
