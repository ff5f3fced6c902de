// SPDX-License-Identifier: Apache-2.0
// One worker: claims a sample, reads its file, gives it to the media engine, and finishes whatever sample the engine
// has done. Samples go from worker to worker through the engine; none is bound to the worker that began it. After the
// seal.
//
// A job is one picture on its way, with a buffer for its file. Its states: free -> held by a worker -> in the engine ->
// held by the worker that takes its completion -> free, or, in training, to the engine again with the next row, if a
// picture was bad.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/base/span.h"
#include "src/base/status.h"
#include "src/loader/media.h"
#include "src/loader/ring.h"
#include "src/loader/sample.h"
#include "src/loader/stream.h"
#include "src/settings/settings.h"

namespace bascule {

class Worker;

enum class JobState { kFree, kHeld, kInEngine };

struct Job {
  std::atomic<JobState> state{JobState::kFree};
  std::atomic<std::uint64_t> sequence{0};  // its name in the engine: a count, and the job's place among all
  Span<std::uint8_t> buffer;
  std::size_t encoded_bytes = 0;
  StreamState* stream = nullptr;
  SampleClaim claim;
  std::int64_t row = 0;       // being tried
  std::int64_t bad_rows = 0;  // tried before it
  std::int64_t reason = 0;    // why the first of them is bad
  Job* next_pending = nullptr;
};

// The state that all workers share.
struct Crew {
  Media* media = nullptr;          // null where samples have no pictures
  bool decodes_elsewhere = false;  // the engine has threads, or a device: waiting for it is part of the work
  Span<StreamState* const> streams;
  Span<Job> jobs;
  OnBadSample on_bad_sample = OnBadSample::kStop;
  Event work;  // a slot was opened, a sample finished, or the end has come
  std::atomic<bool> is_closing{false};
  std::atomic<std::int32_t> device_status{0};  // the media_engine_status that ended the engine
  std::atomic<std::int64_t> started_ns{0};     // when the first stream was started; waiting before that does not count
};

// The rows that may be bad one after another before a sample is given up, and the mark of that in the second detail of
// kBadSample, beside the picture_reason() of the last of them. Then the mark of an evaluation that left out all
// rows.
constexpr std::int64_t kMostBadRows = 1000;
constexpr std::int64_t kGaveUp = std::int64_t{1} << 16;
constexpr std::int64_t kAllLeftOut = std::int64_t{1} << 17;
// Reasons beside those of the media engine: the row was taken out of the file (Manifest::take_out); the file of its
// picture was missing when the data was indexed (Manifest::is_missing); one of its texts is empty.
constexpr std::int64_t kTakenOut = std::int64_t{1} << 18;
constexpr std::int64_t kFileMissing = std::int64_t{1} << 19;
constexpr std::int64_t kEmptyText = std::int64_t{1} << 20;

class Worker {
 public:
  // jobs: a part of crew.jobs, those that this worker begins. augmenting: augmenting_scratch_bytes() of every stream.
  Worker(Crew& crew, Span<Job> jobs, TextScratch scratch, Span<std::byte> augmenting) noexcept;

  // A thread's whole life: works until the crew closes, sleeps where nothing is to be done.
  void run() noexcept;
  // In the calling thread: works until the batch is ready.
  void load(StreamState& stream, std::int64_t number) noexcept;

  std::int64_t wait_ns() const noexcept { return wait_ns_.load(); }
  std::int64_t row_being_read() const noexcept { return row_being_read_.load(std::memory_order_relaxed); }

 private:
  // Does the next thing that can be done; false: there is none now. only: the one stream to begin samples of, or null.
  bool advance(StreamState* only) noexcept;
  bool advance_measured(StreamState* only) noexcept;
  bool submit_pending() noexcept;
  bool begin_sample(StreamState* only) noexcept;
  bool begin_sample_of(StreamState& stream, Job& job) noexcept;
  bool take_completion() noexcept;
  void augment(const Job& job) noexcept;
  void handle(const media_engine_completion& completion) noexcept;
  void replace_bad_row(Job& job, std::int64_t reason) noexcept;
  void read_picture(Job& job) noexcept;
  void note_digest(const Job& job) noexcept;
  void finish(Job& job, const Status& status) noexcept;
  void fail_device(media_engine_status status) noexcept;
  bool claim_from_engine(Job& job) noexcept;
  void put_last(Job& job) noexcept;

  Crew& crew_;
  Span<Job> own_jobs_;
  TextScratch scratch_;
  Span<std::byte> augmenting_;
  Job* pending_first_ = nullptr;  // read, and not yet in the engine
  Job* pending_last_ = nullptr;
  StreamState* worked_for_ = nullptr;  // last
  std::int64_t blocked_ns_ = 0;        // in the advance under way: waiting for a file or a device
  std::atomic<std::int64_t> wait_ns_{0};
  std::atomic<std::int64_t> row_being_read_{-1};
};

}  // namespace bascule
