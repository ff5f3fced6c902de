// SPDX-License-Identifier: Apache-2.0
#include "src/serve/batch_workers.h"

#include <cstdio>
#include <cstring>
#include <utility>

#include "src/runtime/choose_isa.h"

namespace bascule {

BatchWorkers::BatchWorkers(RecordedService& service, Isa isa, std::function<void()> wake)
    : service_(service), work_(static_cast<std::size_t>(service.settings.serve.max_concurrent_requests)) {
  work_.room = service.room;
  work_.queue_timeout_ns = static_cast<std::int64_t>(1e9 * service.settings.serve.queue_timeout_seconds);
  work_.wake = std::move(wake);
  const MachineSettings& machine = service.settings.machine;
  if (service.plan.shared_bytes > 0) {  // in this thread, which may run on all cores: memory_nodes.h
    MemoryPlan shared;
    shared.arena_bytes = service.plan.shared_bytes;
    shared_ = std::make_unique<Arena>(shared, machine.huge_pages);
  }
  std::byte* const shared = shared_ == nullptr ? nullptr : shared_->memory().data();
  try {
    for (std::size_t w = 0; w < service.workers.size(); ++w)
      workers_.push_back(std::make_unique<BatchWorker>(service, w, work_));
    each([&](BatchWorker& worker) { worker.map(shared); });
    for (const auto& worker : workers_)
      service.session.seal(worker->arena(), service.plan, kernels_for(isa, machine), worker->threads().count());
  } catch (...) {
    end();
    throw;
  }
  for (const auto& worker : workers_) {
    if (const int error = worker->threads().pin_error(); error != 0)
      std::fprintf(stderr, "bascule: threads: the system refused to pin a worker's to cores (%s)\n",
                   std::strerror(error));
  }
}

BatchWorkers::~BatchWorkers() { end(); }

void BatchWorkers::end() noexcept {
  {
    const std::lock_guard<std::mutex> lock(work_.mutex);
    work_.stops = true;
  }
  work_.changed.notify_all();
  workers_.clear();
}

// Calls it in the thread of each worker, at the same time, and waits for all. Throws what the first to fail has thrown.
void BatchWorkers::each(const std::function<void(BatchWorker&)>& call) {
  std::unique_lock<std::mutex> lock(work_.mutex);
  work_.call = &call;
  ++work_.calls;
  work_.calling = workers_.size();
  work_.changed.notify_all();
  work_.called.wait(lock, [this] { return work_.calling == 0; });
  if (work_.error != nullptr) std::rethrow_exception(std::exchange(work_.error, nullptr));
}

void BatchWorkers::fill_memory(const std::function<void(StartWork*, Threads&)>& load) {
  each([&](BatchWorker& worker) {
    const Arena& arena = worker.arena();
    StartWork work;
    work.touch(arena.memory(), arena.huge_pages(), false);
    if (worker.number() == 0) {
      if (shared_ != nullptr) work.touch(shared_->memory(), shared_->huge_pages(), false);
      load(&work, worker.threads());
    }
    work.run(worker.threads());
  });
  if (!service_.settings.machine.lock_memory) return;
  if (shared_ != nullptr) shared_->lock();
  for (const auto& worker : workers_) worker->arena().lock();
}

void BatchWorkers::measure(Span<ServedInput> inputs, double bound_ms) {
  work_.inputs = inputs;
  std::vector<BatchPace> paces(workers_.size());
  each([&](BatchWorker& worker) { worker.open(service_.session.tapes(worker.number())); });
  std::vector<std::mutex> parts(workers_.size());
  each([&](BatchWorker& worker) {
    const MeasuredPart own = part_to_measure(worker.number(), workers_.size(), inputs.size());
    const std::lock_guard<std::mutex> lock(parts[own.part]);
    paces[worker.number()] = worker.measure(inputs.subspan(own.first, own.count));
  });
  for (const BatchPace& pace : paces) {
    work_.pace.row_ns = std::max(work_.pace.row_ns, pace.row_ns);
    work_.pace.rows_of_token = std::max(work_.pace.rows_of_token, pace.rows_of_token);
  }
  // A request may wait for the batch that is running, and then has its own: each has half of the time.
  if (bound_ms > 0.0 && service_.model->drawer() == nullptr)
    work_.room.tokens = std::clamp(static_cast<std::int64_t>(0.5e6 * bound_ms / row_ns()), service_.model->most_rows(),
                                   service_.room.tokens);
}

double BatchWorkers::predicted_wait_ns(const ServedInput* first) noexcept {
  std::int64_t rows = 0;
  for (const ServedInput* input = first; input != nullptr; input = input->next)
    rows += cost_of(*service_.model, work_.pace, *input);
  const std::lock_guard<std::mutex> lock(work_.mutex);
  return row_ns() * rows_until_answered(work_.queue.cost() + work_.running_rows, rows, workers_.size());
}

void BatchWorkers::admit(ServedInput* first) noexcept {
  const ServedModel& model = *service_.model;
  {
    const std::lock_guard<std::mutex> lock(work_.mutex);
    for (ServedInput* input = first; input != nullptr; input = input->next)
      work_.queue.push({static_cast<std::uint32_t>(input - work_.inputs.data()), model.rows(*input), input->selected,
                        cost_of(model, work_.pace, *input)});
  }
  // Wakes one idle worker for each input.
  for (const ServedInput* input = first; input != nullptr; input = input->next) work_.changed.notify_one();
}

void BatchWorkers::drop(ServedInput* first) noexcept {
  const std::lock_guard<std::mutex> lock(work_.mutex);
  for (ServedInput* input = first; input != nullptr; input = input->next) input->is_dropped = true;
}

std::size_t BatchWorkers::take_done(Span<std::uint32_t> numbers) noexcept {
  const std::lock_guard<std::mutex> lock(work_.mutex);
  const std::size_t count = std::min(numbers.size(), work_.done.size());
  std::copy_n(work_.done.begin(), count, numbers.begin());
  work_.done.erase(work_.done.begin(), work_.done.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

std::size_t BatchWorkers::waiting() noexcept {
  const std::lock_guard<std::mutex> lock(work_.mutex);
  return work_.queue.inputs();
}

std::int64_t BatchWorkers::running_ms() const noexcept {
  std::int64_t longest = 0;
  for (const auto& worker : workers_) longest = std::max(longest, worker->running_ms());
  return longest;
}

std::uint64_t BatchWorkers::batches() noexcept {
  const std::lock_guard<std::mutex> lock(work_.mutex);
  return work_.batches;
}

}  // namespace bascule
