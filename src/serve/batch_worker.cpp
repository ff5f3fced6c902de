// SPDX-License-Identifier: Apache-2.0
#include "src/serve/batch_worker.h"

#include <algorithm>
#include <utility>

#include "src/base/clock.h"

namespace bascule {

namespace {

// A PNG of one grey pixel, for batches that are measured.
constexpr unsigned char kOnePixelBytes[] = {
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00,
    0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x00, 0x00, 0x00, 0x00, 0x3a, 0x7e, 0x9b, 0x55, 0x00,
    0x00, 0x00, 0x0a, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0x68, 0x00, 0x00, 0x00, 0x82, 0x00, 0x81,
    0x77, 0xcd, 0x72, 0xb6, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};
const char* const kOnePixel = reinterpret_cast<const char*>(kOnePixelBytes);

}  // namespace

BatchWorker::BatchWorker(ServedModel& model, Span<ServedInput> inputs, std::int64_t queue_timeout_ns,
                         std::function<void()> wake)
    : model_(model),
      inputs_(inputs),
      queue_timeout_ns_(queue_timeout_ns),
      wake_(std::move(wake)),
      queue_(inputs.size()) {
  taken_.running.reserve(inputs.size());
  taken_.dropped.reserve(inputs.size());
  batch_.reserve(inputs.size());
  done_.reserve(inputs.size());
  thread_ = std::thread([this] { work(); });
}

BatchWorker::~BatchWorker() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

double BatchWorker::measure(const TextRoom& room, double bound_ms) {
  room_ = room;
  std::int64_t rows = 0, selected = 0;
  batch_.clear();
  for (ServedInput& input : inputs_) {
    input.tokens = model_.reads_pictures() ? model_.longest() : std::min(model_.longest(), room.tokens - rows);
    if (static_cast<std::int64_t>(batch_.size()) == room.texts || input.tokens < 1) break;
    input.second_begin = input.tokens;
    input.top = 1;
    const bool has_mask = model_.task() == ServedTask::kWords && selected < room.selected;
    input.picture = {kOnePixel, sizeof kOnePixelBytes};
    if (!model_.reads_pictures())
      std::fill(input.ids, input.ids + input.tokens, std::max(0, model_.tokenizer().pad_id()));
    if (has_mask) input.ids[0] = model_.tokenizer().mask_id();
    input.selected = has_mask ? 1 : 0;
    selected += input.selected;
    rows += input.tokens;
    batch_.push_back(&input);
  }
  std::int64_t best = 0;
  for (int i = 0; i < 3; ++i) {  // the first finds nothing in caches
    const std::int64_t begun = monotonic_ns();
    model_.run(batch_.data(), batch_.size());
    const std::int64_t took = monotonic_ns() - begun;
    best = best == 0 ? took : std::min(best, took);
  }
  row_ns_ = static_cast<double>(best) / static_cast<double>(rows);
  // A request may wait for the batch that is running, and then has its own: each has half of the time.
  if (bound_ms > 0.0)
    room_.tokens = std::clamp(static_cast<std::int64_t>(0.5e6 * bound_ms / row_ns_), model_.longest(), room.tokens);
  return row_ns_;
}

double BatchWorker::predicted_wait_ns(std::int64_t rows) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  return row_ns_ * static_cast<double>(queue_.rows() + running_rows_ + rows);
}

void BatchWorker::admit(ServedInput* first) noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (ServedInput* input = first; input != nullptr; input = input->next)
      queue_.push(static_cast<std::uint32_t>(input - inputs_.data()), input->tokens, input->selected);
  }
  changed_.notify_one();
}

void BatchWorker::drop(ServedInput* first) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (ServedInput* input = first; input != nullptr; input = input->next) input->is_dropped = true;
}

std::size_t BatchWorker::take_done(Span<std::uint32_t> numbers) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::size_t count = std::min(numbers.size(), done_.size());
  std::copy_n(done_.begin(), count, numbers.begin());
  done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

std::int64_t BatchWorker::running_ms() const noexcept {
  const std::int64_t since = running_since_ms_;
  return since == 0 ? 0 : monotonic_ms() - since;
}

std::size_t BatchWorker::waiting() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  return queue_.inputs();
}

// Runs what was taken, without the lock.
void BatchWorker::run(std::unique_lock<std::mutex>* lock) noexcept {
  batch_.clear();
  for (const std::uint32_t number : taken_.running) batch_.push_back(&inputs_[number]);
  running_rows_ = 0;
  for (const ServedInput* input : batch_) running_rows_ += input->tokens;
  lock->unlock();
  const std::int64_t begun = monotonic_ns();
  running_since_ms_ = begun / 1'000'000;
  model_.run(batch_.data(), batch_.size());
  const std::int64_t ended = monotonic_ns();
  lock->lock();
  for (ServedInput* input : batch_) {
    input->begun_ns = begun;
    input->ended_ns = ended;
    input->batch_inputs = static_cast<std::int64_t>(batch_.size());
    input->batch_rows = running_rows_;
    input->is_first_of_batch = input == batch_.front();
  }
  running_rows_ = 0;
  running_since_ms_ = 0;
  batches_.fetch_add(1, std::memory_order_relaxed);
}

void BatchWorker::work() noexcept {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stops_ || !queue_.is_empty(); });
    if (stops_) return;
    const std::int64_t latest = monotonic_ns() - queue_timeout_ns_;
    queue_.take(
        room_,
        [&](std::uint32_t number) {
          ServedInput& input = inputs_[number];
          input.is_late = input.queued_ns < latest;
          return input.is_dropped || input.is_late;
        },
        &taken_);
    if (!taken_.running.empty()) run(&lock);
    done_.insert(done_.end(), taken_.dropped.begin(), taken_.dropped.end());
    done_.insert(done_.end(), taken_.running.begin(), taken_.running.end());
    lock.unlock();
    wake_();
    lock.lock();
  }
}

}  // namespace bascule
