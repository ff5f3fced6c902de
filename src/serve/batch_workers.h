// SPDX-License-Identifier: Apache-2.0
// The workers of a service, and the one queue from which each takes its next batch as soon as it is free. They share
// the model and its weights; what a batch is computed in is each one's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/isa.h"
#include "src/base/span.h"
#include "src/runtime/start_work.h"
#include "src/serve/batch_worker.h"

namespace bascule {

class BatchWorkers {
 public:
  // Starts the threads, maps the arenas, and seals the service's session. wake: called by any of the threads when
  // answers are there. Throws Error, std::system_error.
  BatchWorkers(RecordedService& service, Isa isa, std::function<void()> wake);
  // All inputs have been answered.
  ~BatchWorkers();
  BatchWorkers(const BatchWorkers&) = delete;
  BatchWorkers& operator=(const BatchWorkers&) = delete;

  // Before the seal.

  // Loads nothing, but makes the memory of all resident, while `load` runs in the first one's thread.
  void fill_memory(const std::function<void(StartWork*, Threads&)>& load);
  const Arena& arena() const { return workers_.front()->arena(); }  // has what is shared, too
  // Makes them ready for these inputs, which are the service's and outlive this: all run batches at the same time, by
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
