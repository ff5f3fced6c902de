// SPDX-License-Identifier: Apache-2.0
#include "src/serve/batch_workers.h"

#include <algorithm>
#include <utility>

#include "src/base/clock.h"
#include "src/base/error.h"

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

std::int64_t cost_of(const ServedModel& model, const BatchPace& pace, const ServedInput& input) noexcept {
  const double written = model.writer() == nullptr ? 0.0 : static_cast<double>(input.most_written);
  return model.rows(input) + static_cast<std::int64_t>(written * pace.rows_of_token);
}

BatchWorker::BatchWorker(const RecordedService& service, std::size_t number, SharedWork& work)
    : service_(service), model_(*service.model), number_(number), work_(work) {
  const std::size_t inputs = static_cast<std::size_t>(service.settings.serve.max_concurrent_requests);
  taken_.running.reserve(inputs);
  taken_.dropped.reserve(inputs);
  batch_.reserve(inputs);
  writing_.reserve(inputs);
  thread_ = std::thread([this] { live(); });
}

void BatchWorker::map(std::byte* shared) {
  threads_ = std::make_unique<Threads>(service_.workers[number_], nullptr, nullptr, service_.threads);
  arena_ = std::make_unique<Arena>(service_.plan, service_.settings.machine.huge_pages, shared);
}

void BatchWorker::open(const Tapes& tapes) {
  const bool has_memory = BatchAnswerer::bytes(model_) > 0;
  answerer_ = std::make_unique<BatchAnswerer>(model_, tapes, *threads_,
                                              has_memory ? arena_->at(service_.plan[kBatchMemory]) : nullptr);
}

// Nanoseconds of a row of the largest batch of such inputs.
double BatchWorker::row_ns_of(Span<ServedInput> inputs, bool has_text, bool has_picture) {
  std::int64_t rows = 0, selected = 0;
  const std::int64_t beside = has_picture ? model_.picture_rows() : 0;
  batch_.clear();
  const TextRoom& room = service_.room;
  for (ServedInput& input : inputs) {
    const std::int64_t left = room.tokens - rows - beside;
    input.has_picture = has_picture;
    input.tokens = has_text ? std::min(model_.longest(), left) : 0;
    if (static_cast<std::int64_t>(batch_.size()) == room.texts || left < 0 || (has_text && input.tokens < 1)) break;
    input.second_begin = input.tokens;
    input.top = input.most_written = 1;
    const bool has_mask = model_.task() == ServedTask::kWords && selected < room.selected;
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
    answerer_->run(batch_.data(), batch_.size());
    const std::int64_t took = monotonic_ns() - begun;
    best = best == 0 ? took : std::min(best, took);
  }
  return static_cast<double>(best) / static_cast<double>(rows);
}

BatchPace BatchWorker::measure(Span<ServedInput> inputs) {
  BatchPace pace;
  if (model_.drawer() != nullptr) {  // its graphs are measured, and a picture takes long
    pace.row_ns = answerer_->measure_drawing() / static_cast<double>(model_.most_rows());
    return pace;
  }
  for (const auto& [has_text, has_picture] : {std::pair{true, true}, {false, true}, {true, false}}) {
    if (model_.answers(has_text, has_picture))
      pace.row_ns = std::max(pace.row_ns, row_ns_of(inputs, has_text, has_picture));
  }
  if (model_.writer() != nullptr) pace.rows_of_token = measure_step(pace.row_ns);
  ServedInput* first[] = {&inputs[0]};
  answerer_->run(first, 1);
  if (!inputs[0].is_finite)
    throw Error(ErrorKind::kData, model_.folder(), "the model's numbers are not finite", "its weights may be damaged");
  return pace;
}

// The step of as many texts as a batch holds, at their first tokens. Returns the rows of a token.
double BatchWorker::measure_step(double row_ns) noexcept {
  for (ServedInput* input : batch_) input->most_written = model_.written();
  answerer_->join(batch_.data(), batch_.size());
  constexpr int kSteps = 4;
  const std::int64_t begun = monotonic_ns();
  for (int i = 0; i < kSteps; ++i) answerer_->step();
  const double step_ns = static_cast<double>(monotonic_ns() - begun) / kSteps;
  for (ServedInput* input : batch_) {
    if (!answerer_->writer()->finish(input)) answerer_->writer()->leave(*input);
  }
  return step_ns / row_ns / static_cast<double>(batch_.size());
}

std::int64_t BatchWorker::running_ms() const noexcept {
  const std::int64_t since = running_since_ms_;
  return since == 0 ? 0 : monotonic_ms() - since;
}

void BatchWorker::set_running(std::int64_t rows) noexcept {
  work_.running_rows += rows - running_rows_;
  running_rows_ = rows;
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
  std::int64_t rows = 0;
  for (const std::uint32_t number : taken_.running) {
    batch_.push_back(&work_.inputs[number]);
    rows += model_.rows(*batch_.back());
  }
  set_running(rows);
  lock->unlock();
  const std::int64_t begun = monotonic_ns();
  running_since_ms_ = begun / 1'000'000;
  answerer_->run(batch_.data(), batch_.size());
  const std::int64_t ended = monotonic_ns();
  lock->lock();
  for (ServedInput* input : batch_) {
    input->begun_ns = begun;
    mark_ended(input, ended);
  }
  set_running(0);
  running_since_ms_ = 0;
  ++work_.batches;
}

// What was taken joins the texts that are being written, those that nobody waits for leave, and each gets a token.
void BatchWorker::write(std::unique_lock<std::mutex>* lock) noexcept {
  const auto number_of = [&](const ServedInput* input) {
    return static_cast<std::uint32_t>(input - work_.inputs.data());
  };
  std::size_t kept = 0;
  for (ServedInput* input : writing_) {
    if (!input->is_dropped) {
      writing_[kept++] = input;
      continue;
    }
    answerer_->writer()->leave(*input);
    taken_.dropped.push_back(number_of(input));
  }
  writing_.resize(kept);
  batch_.clear();
  for (const std::uint32_t number : taken_.running) batch_.push_back(&work_.inputs[number]);
  taken_.running.clear();
  writing_.insert(writing_.end(), batch_.begin(), batch_.end());
  std::int64_t rows = 0;
  for (const ServedInput* input : writing_) rows += cost(*input);
  set_running(rows);
  if (writing_.empty()) return;
  lock->unlock();
  const std::int64_t begun = monotonic_ns();
  running_since_ms_ = begun / 1'000'000;
  for (ServedInput* input : batch_) input->begun_ns = begun;
  answerer_->join(batch_.data(), batch_.size());
  answerer_->step();
  const std::int64_t ended = monotonic_ns();
  lock->lock();
  batch_ = writing_;
  kept = 0;
  for (ServedInput* input : batch_) {
    if (!answerer_->writer()->finish(input)) {
      writing_[kept++] = input;
      continue;
    }
    mark_ended(input, ended);
    input->is_first_of_batch = true;  // each has a wait of its own
    taken_.running.push_back(number_of(input));
  }
  writing_.resize(kept);
  if (writing_.empty()) set_running(0);
  running_since_ms_ = 0;
  ++work_.batches;
}

// What a batch holds, or there are slots for; of few inputs those who have nothing to do get their share.
void BatchWorker::take() noexcept {
  TextRoom room = work_.room;
  taken_.running.clear();
  taken_.dropped.clear();
  const std::size_t share = divide_up(work_.queue.inputs(), 1 + work_.idle);
  room.texts = std::min(room.texts, std::max<std::int64_t>(1, static_cast<std::int64_t>(share)));
  if (answerer_->writer() != nullptr) room.texts = std::min(room.texts, answerer_->writer()->free_slots());
  if (room.texts == 0) return;
  const std::int64_t latest = monotonic_ns() - work_.queue_timeout_ns;
  work_.queue.take(
      room,
      [&](std::uint32_t number) {
        ServedInput& input = work_.inputs[number];
        input.is_late = input.queued_ns < latest;
        return input.is_dropped || input.is_late;
      },
      &taken_);
}

// A call before the seal.
void BatchWorker::answer_call(std::unique_lock<std::mutex>* lock) noexcept {
  const std::function<void(BatchWorker&)>& call = *work_.call;
  lock->unlock();
  std::exception_ptr error;
  try {
    call(*this);
  } catch (...) {
    error = std::current_exception();
  }
  lock->lock();
  if (work_.error == nullptr) work_.error = error;
  if (--work_.calling == 0) work_.called.notify_one();
}

void BatchWorker::live() noexcept {
  std::size_t calls = 0;
  std::unique_lock<std::mutex> lock(work_.mutex);
  for (;;) {
    ++work_.idle;
    work_.changed.wait(
        lock, [&] { return work_.stops || calls < work_.calls || !work_.queue.is_empty() || !writing_.empty(); });
    --work_.idle;
    if (work_.stops) break;
    if (calls < work_.calls) {
      ++calls;
      answer_call(&lock);
      continue;
    }
    take();
    if (answerer_->writer() != nullptr) {
      write(&lock);
    } else if (!taken_.running.empty()) {
      run(&lock);
    }
    if (taken_.dropped.empty() && taken_.running.empty()) continue;
    work_.done.insert(work_.done.end(), taken_.dropped.begin(), taken_.dropped.end());
    work_.done.insert(work_.done.end(), taken_.running.begin(), taken_.running.end());
    lock.unlock();
    work_.wake();
    lock.lock();
  }
  lock.unlock();
  threads_.reset();  // in the thread that has made them
}

}  // namespace bascule
