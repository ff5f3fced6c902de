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
  writing_.reserve(inputs.size());
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

// Nanoseconds of a row of the largest batch of such inputs.
double BatchWorker::row_ns_of(bool has_text, bool has_picture) {
  std::int64_t rows = 0, selected = 0;
  const std::int64_t beside = has_picture ? model_.picture_rows() : 0;
  batch_.clear();
  for (ServedInput& input : inputs_) {
    const std::int64_t left = room_.tokens - rows - beside;
    input.has_picture = has_picture;
    input.tokens = has_text ? std::min(model_.longest(), left) : 0;
    if (static_cast<std::int64_t>(batch_.size()) == room_.texts || left < 0 || (has_text && input.tokens < 1)) break;
    input.second_begin = input.tokens;
    input.top = input.most_written = 1;
    const bool has_mask = model_.task() == ServedTask::kWords && selected < room_.selected;
    input.picture = {kOnePixel, sizeof kOnePixelBytes};
    std::fill(input.ids, input.ids + input.tokens, has_text ? std::max(0, model_.tokenizer().pad_id()) : 0);
    if (has_mask) input.ids[0] = model_.tokenizer().mask_id();
    input.selected = has_mask ? 1 : 0;
    selected += input.selected;
    rows += model_.rows(input);
    batch_.push_back(&input);
  }
  std::int64_t best = 0;
  for (int i = 0; i < 3; ++i) {  // the first finds nothing in caches
    const std::int64_t begun = monotonic_ns();
    model_.run(batch_.data(), batch_.size());
    const std::int64_t took = monotonic_ns() - begun;
    best = best == 0 ? took : std::min(best, took);
  }
  return static_cast<double>(best) / static_cast<double>(rows);
}

double BatchWorker::measure(const TextRoom& room, double bound_ms) {
  room_ = room;
  if (model_.drawer() != nullptr) return row_ns_ = model_.measure_drawing() / static_cast<double>(model_.most_rows());
  for (const auto& [has_text, has_picture] : {std::pair{true, true}, {false, true}, {true, false}}) {
    if (model_.answers(has_text, has_picture)) row_ns_ = std::max(row_ns_, row_ns_of(has_text, has_picture));
  }
  if (model_.writer() != nullptr) measure_step();
  // A request may wait for the batch that is running, and then has its own: each has half of the time.
  if (bound_ms > 0.0)
    room_.tokens = std::clamp(static_cast<std::int64_t>(0.5e6 * bound_ms / row_ns_), model_.most_rows(), room.tokens);
  return row_ns_;
}

// The step of as many texts as a batch holds, at their first tokens.
void BatchWorker::measure_step() noexcept {
  for (ServedInput* input : batch_) input->most_written = model_.written();
  model_.join(batch_.data(), batch_.size());
  constexpr int kSteps = 4;
  const std::int64_t begun = monotonic_ns();
  for (int i = 0; i < kSteps; ++i) model_.step();
  const double step_ns = static_cast<double>(monotonic_ns() - begun) / kSteps;
  rows_of_token_ = step_ns / row_ns_ / static_cast<double>(batch_.size());
  for (ServedInput* input : batch_) {
    if (!model_.writer()->finish(input)) model_.writer()->leave(*input);
  }
}

std::int64_t BatchWorker::cost(const ServedInput& input) const noexcept {
  const double written = model_.writer() == nullptr ? 0.0 : static_cast<double>(input.most_written);
  return model_.rows(input) + static_cast<std::int64_t>(written * rows_of_token_);
}

double BatchWorker::predicted_wait_ns(const ServedInput* first) noexcept {
  std::int64_t rows = 0;
  for (const ServedInput* input = first; input != nullptr; input = input->next) rows += cost(*input);
  const std::lock_guard<std::mutex> lock(mutex_);
  return row_ns_ * static_cast<double>(queue_.cost() + running_rows_ + rows);
}

void BatchWorker::admit(ServedInput* first) noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (ServedInput* input = first; input != nullptr; input = input->next)
      queue_.push(
          {static_cast<std::uint32_t>(input - inputs_.data()), model_.rows(*input), input->selected, cost(*input)});
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

void BatchWorker::mark_ended(ServedInput* input, std::int64_t now) noexcept {
  input->ended_ns = now;
  input->batch_inputs = static_cast<std::int64_t>(batch_.size());
  input->batch_rows = running_rows_;
  input->is_first_of_batch = input == batch_.front();
}

// Runs what was taken, without the lock.
void BatchWorker::run(std::unique_lock<std::mutex>* lock) noexcept {
  batch_.clear();
  for (const std::uint32_t number : taken_.running) batch_.push_back(&inputs_[number]);
  running_rows_ = 0;
  for (const ServedInput* input : batch_) running_rows_ += model_.rows(*input);
  lock->unlock();
  const std::int64_t begun = monotonic_ns();
  running_since_ms_ = begun / 1'000'000;
  model_.run(batch_.data(), batch_.size());
  const std::int64_t ended = monotonic_ns();
  lock->lock();
  for (ServedInput* input : batch_) {
    input->begun_ns = begun;
    mark_ended(input, ended);
  }
  running_rows_ = 0;
  running_since_ms_ = 0;
  batches_.fetch_add(1, std::memory_order_relaxed);
}

// What was taken joins the texts that are being written, those that nobody waits for leave, and each gets a token.
void BatchWorker::write(std::unique_lock<std::mutex>* lock) noexcept {
  const auto number_of = [&](const ServedInput* input) { return static_cast<std::uint32_t>(input - inputs_.data()); };
  std::size_t kept = 0;
  for (ServedInput* input : writing_) {
    if (!input->is_dropped) {
      writing_[kept++] = input;
      continue;
    }
    model_.writer()->leave(*input);
    taken_.dropped.push_back(number_of(input));
  }
  writing_.resize(kept);
  batch_.clear();
  for (const std::uint32_t number : taken_.running) batch_.push_back(&inputs_[number]);
  taken_.running.clear();
  running_rows_ = 0;
  writing_.insert(writing_.end(), batch_.begin(), batch_.end());
  for (const ServedInput* input : writing_) running_rows_ += cost(*input);
  if (writing_.empty()) return;
  lock->unlock();
  const std::int64_t begun = monotonic_ns();
  running_since_ms_ = begun / 1'000'000;
  for (ServedInput* input : batch_) input->begun_ns = begun;
  model_.join(batch_.data(), batch_.size());
  model_.step();
  const std::int64_t ended = monotonic_ns();
  lock->lock();
  batch_ = writing_;
  kept = 0;
  for (ServedInput* input : batch_) {
    if (!model_.writer()->finish(input)) {
      writing_[kept++] = input;
      continue;
    }
    mark_ended(input, ended);
    input->is_first_of_batch = true;  // each has a wait of its own
    taken_.running.push_back(number_of(input));
  }
  writing_.resize(kept);
  if (writing_.empty()) running_rows_ = 0;
  running_since_ms_ = 0;
  batches_.fetch_add(1, std::memory_order_relaxed);
}

// What a batch holds, or there are slots for.
void BatchWorker::take() noexcept {
  TextRoom room = room_;
  taken_.running.clear();
  taken_.dropped.clear();
  if (model_.writer() != nullptr) room.texts = std::min(room.texts, model_.writer()->free_slots());
  if (room.texts == 0) return;
  const std::int64_t latest = monotonic_ns() - queue_timeout_ns_;
  queue_.take(
      room,
      [&](std::uint32_t number) {
        ServedInput& input = inputs_[number];
        input.is_late = input.queued_ns < latest;
        return input.is_dropped || input.is_late;
      },
      &taken_);
}

void BatchWorker::work() noexcept {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stops_ || !queue_.is_empty() || !writing_.empty(); });
    if (stops_) return;
    take();
    if (model_.writer() != nullptr) {
      write(&lock);
    } else if (!taken_.running.empty()) {
      run(&lock);
    }
    if (taken_.dropped.empty() && taken_.running.empty()) continue;
    done_.insert(done_.end(), taken_.dropped.begin(), taken_.dropped.end());
    done_.insert(done_.end(), taken_.running.begin(), taken_.running.end());
    lock.unlock();
    wake_();
    lock.lock();
  }
}

}  // namespace bascule
