// SPDX-License-Identifier: Apache-2.0
#include "src/loader/worker.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/index/picture_folder.h"

namespace bascule {
namespace {

constexpr int kJobBits = 16;
constexpr std::uint64_t kJobMask = (std::uint64_t{1} << kJobBits) - 1;
// How long a worker waits in the engine before it looks for other work. Only engines with threads of their own wait.
constexpr std::uint64_t kEngineWaitNs = 5'000'000;

// The time that a call spends waiting for anything but a core.
class BlockedTime {
 public:
  BlockedTime() noexcept : wall_ns_(monotonic_ns()), processor_ns_(thread_cpu_ns()) {}
  std::int64_t ns() const noexcept {
    return std::max(std::int64_t{0}, monotonic_ns() - wall_ns_ - (thread_cpu_ns() - processor_ns_));
  }

 private:
  std::int64_t wall_ns_, processor_ns_;
};

Status device_failure(const Job& job, std::int32_t status) noexcept {
  return Status{StatusCode::kDeviceFailed, {job.row, status}};
}

}  // namespace

Worker::Worker(Crew& crew, Span<Job> jobs, TextScratch scratch, Span<std::byte> augmenting) noexcept
    : crew_(crew), own_jobs_(jobs), scratch_(scratch), augmenting_(augmenting) {
  BASCULE_CHECK(crew.jobs.size() <= kJobMask);
}

void Worker::run() noexcept {
  while (!crew_.is_closing.load()) {
    const std::uint32_t seen = crew_.work.count();
    if (advance_measured(nullptr) || crew_.is_closing.load()) continue;
    const std::int64_t asleep_ns = monotonic_ns();
    crew_.work.wait_beyond(seen);
    const std::int64_t started_ns = crew_.started_ns.load();
    if (started_ns != 0)
      wait_ns_.fetch_add(std::max(std::int64_t{0}, monotonic_ns() - std::max(asleep_ns, started_ns)));
  }
}

void Worker::load(StreamState& stream, std::int64_t number) noexcept {
  while (!stream.ring.is_ready(number)) {
    // Nobody else has a job: an engine that knows of none has lost one.
    if (!advance_measured(&stream)) fail_device(MEDIA_ENGINE_DEVICE_FAILED);
  }
}

// Time without a core is not counted: workers give way to the step, and what they lose by that says nothing about how
// fast they load.
bool Worker::advance_measured(StreamState* only) noexcept {
  const std::int64_t begin_ns = thread_cpu_ns();
  blocked_ns_ = 0;
  if (!advance(only)) return false;
  if (worked_for_ != nullptr) {
    worked_for_->processor_ns.fetch_add(thread_cpu_ns() - begin_ns);
    worked_for_->blocked_ns.fetch_add(blocked_ns_);
  }
  return true;
}

bool Worker::advance(StreamState* only) noexcept {
  if (submit_pending()) return true;
  if (pending_first_ == nullptr && begin_sample(only)) return true;
  return take_completion();
}

// The job leaves the list before it is submitted: once it is in, another worker may take it.
bool Worker::submit_pending() noexcept {
  Job* const job = pending_first_;
  if (job == nullptr) return false;
  if (crew_.device_status.load() != 0) {
    pending_first_ = job->next_pending;
    finish(*job, device_failure(*job, crew_.device_status.load()));
    return true;
  }
  media_engine_job form = crew_.media->job_form();
  form.sequence = job->sequence.load() + kJobMask + 1;
  form.encoded = job->buffer.data();
  form.encoded_bytes = job->encoded_bytes;
  const StreamState& stream = *job->stream;
  const Slot& slot = job->stream->slot(job->claim.number);
  form.pixels = slot.pixels_of(job->claim.sample);
  add_random_crop(&form, stream.crops, stream.order.seed(), slot.place.epoch, job->row);
  form.raw = stream.augmenting.changes_bytes() ? 1 : 0;
  pending_first_ = job->next_pending;
  job->sequence.store(form.sequence);
  job->state.store(JobState::kInEngine);
  const media_engine_status status = media_engine_submit(crew_.media->engine(), &form);
  const bool failed_meanwhile = status == MEDIA_ENGINE_OK && crew_.device_status.load() != 0;
  if (status == MEDIA_ENGINE_OK && !failed_meanwhile) return true;
  if (!claim_from_engine(*job)) return true;  // whoever gave up on the device has finished it
  if (status == MEDIA_ENGINE_FULL) {
    job->next_pending = pending_first_;
    pending_first_ = job;
    if (job->next_pending == nullptr) pending_last_ = job;
    return false;
  }
  finish(*job, device_failure(*job, failed_meanwhile ? crew_.device_status.load() : status));
  return true;
}

// Streams whose step is waiting come first.
bool Worker::begin_sample(StreamState* only) noexcept {
  Job* const job = std::find_if(own_jobs_.begin(), own_jobs_.end(),
                                [](const Job& one) { return one.state.load() == JobState::kFree; });
  if (job == own_jobs_.end()) return false;
  if (only != nullptr) return begin_sample_of(*only, *job);
  for (StreamState* const stream : crew_.streams) {
    if (stream->ring.is_awaited() && begin_sample_of(*stream, *job)) return true;
  }
  for (StreamState* const stream : crew_.streams) {
    if (begin_sample_of(*stream, *job)) return true;
  }
  return false;
}

bool Worker::begin_sample_of(StreamState& stream, Job& job) noexcept {
  if (!stream.ring.try_claim(&job.claim)) return false;
  job.state.store(JobState::kHeld);
  job.stream = &stream;
  worked_for_ = &stream;
  job.bad_rows = 0;
  read_picture(job);
  return true;
}

bool Worker::take_completion() noexcept {
  if (crew_.media == nullptr) return false;
  media_engine_completion completion = {};
  const BlockedTime waited;
  const media_engine_status status = media_engine_wait(crew_.media->engine(), &completion, kEngineWaitNs);
  if (crew_.decodes_elsewhere) blocked_ns_ += waited.ns();
  if (status == MEDIA_ENGINE_EMPTY) return false;
  if (status == MEDIA_ENGINE_TIMED_OUT) return true;
  if (status == MEDIA_ENGINE_OK) {
    handle(completion);
  } else {
    fail_device(status);
  }
  return true;
}

// The engine has decoded, cropped and flipped the picture.
void Worker::augment(const Job& job) noexcept {
  const StreamState& stream = *job.stream;
  const Slot& slot = job.stream->slot(job.claim.number);
  const std::int64_t epoch = slot.place.epoch;
  augment_picture(slot.pixels_of(job.claim.sample), stream.augmenting, stream.order.seed(), epoch, job.row,
                  augmenting_);
}

void Worker::handle(const media_engine_completion& completion) noexcept {
  const std::uint64_t place = completion.sequence & kJobMask;
  if (place >= crew_.jobs.size()) return;
  Job& job = crew_.jobs[place];
  if (job.sequence.load() != completion.sequence || !claim_from_engine(job)) return;
  worked_for_ = job.stream;
  const media_engine_status status = static_cast<media_engine_status>(completion.status);
  if (status == MEDIA_ENGINE_OK) {
    augment(job);
    finish(job, ok_status());
  } else if (media_engine_is_bad_picture(status) != 0) {
    replace_bad_row(job, picture_reason(completion));
  } else {
    finish(job, device_failure(job, completion.status));
  }
}

// In training the good sample at the nearest later position of the epoch, cyclic, takes the place of a bad one. An
// evaluation leaves it out: no row is judged twice.
void Worker::replace_bad_row(Job& job, std::int64_t reason) noexcept {
  const std::int64_t bad_row = job.row;
  if (job.bad_rows++ == 0) job.reason = reason;
  const bool is_skipping = crew_.on_bad_sample == OnBadSample::kSkip;
  if (is_skipping && job.stream->order.is_sequential()) {
    job.row = SampleRecord::kLeftOut;
    return finish(job, ok_status());
  }
  if (is_skipping && job.bad_rows < std::min(kMostBadRows, job.stream->order.rows())) return read_picture(job);
  finish(job, Status{StatusCode::kBadSample, {bad_row, is_skipping ? reason | kGaveUp : reason}});
}

void Worker::read_picture(Job& job) noexcept {
  StreamState& stream = *job.stream;
  const Slot& slot = stream.slot(job.claim.number);
  const std::int64_t rows = stream.order.rows();
  for (;;) {
    const std::int64_t position = slot.place.first_position + job.claim.sample + job.bad_rows;
    job.row = stream.order.row(slot.order, slot.place.epoch, position % rows);
    const std::int64_t reason = stream.manifest.is_taken_out(job.row)     ? kTakenOut
                                : stream.manifest.is_missing(job.row)     ? kFileMissing
                                : stream.manifest.has_empty_text(job.row) ? kEmptyText
                                                                          : 0;
    if (reason == 0) break;
    if (job.bad_rows++ == 0) job.reason = reason;
    if (stream.order.is_sequential()) {
      job.row = SampleRecord::kLeftOut;
      return finish(job, ok_status());
    }
    if (job.bad_rows >= std::min(kMostBadRows, rows))
      return finish(job, Status{StatusCode::kBadSample, {job.row, reason | kGaveUp}});
  }
  if (!stream.folder) return finish(job, ok_status());
  const BlockedTime reading;
  row_being_read_.store(job.row, std::memory_order_relaxed);
  const int failure = stream.folder->read(job.row, job.buffer, &job.encoded_bytes);
  row_being_read_.store(-1, std::memory_order_relaxed);
  blocked_ns_ += reading.ns();
  if (failure != 0) return finish(job, Status{StatusCode::kReadFailed, {job.row, failure}});
  note_digest(job);
  put_last(job);
}

// Notes the digest of the file as it is first read. Another worker that reads it at the same time gets the same number.
void Worker::note_digest(const Job& job) noexcept {
  const StreamState& stream = *job.stream;
  if (stream.digests.empty()) return;
  PictureDigest& digest = stream.digests[static_cast<std::size_t>(stream.manifest.image_id(job.row))];
  if (digest.load(std::memory_order_relaxed) == 0)
    digest.store(picture_digest(job.buffer.data(), job.encoded_bytes), std::memory_order_relaxed);
}

// After the job is free its owner may begin another sample with it.
void Worker::finish(Job& job, const Status& status) noexcept {
  StreamState& stream = *job.stream;
  const SampleClaim claim = job.claim;
  Slot& slot = stream.slot(claim.number);
  slot.samples[claim.sample] = SampleRecord{status, job.row, job.bad_rows, job.reason};
  job.state.store(JobState::kFree);
  stream.loaded_samples.fetch_add(1);
  if (stream.ring.finish_sample(claim.number)) {
    complete_batch(&slot, stream.manifest, stream.samples, stream.mix, stream.order.samples_per_epoch(), scratch_);
    stream.ring.publish(claim.number);
  }
  stream.ring.end_claim();
  crew_.work.raise();
}

// The engine is given up: every job that is in it fails, and nothing more is submitted.
void Worker::fail_device(media_engine_status status) noexcept {
  BASCULE_CHECK(crew_.media != nullptr);
  std::int32_t none = 0;
  crew_.device_status.compare_exchange_strong(none, status);
  (void)media_engine_reset(crew_.media->engine());
  for (Job& job : crew_.jobs) {
    if (claim_from_engine(job)) finish(job, device_failure(job, crew_.device_status.load()));
  }
}

// True: the job was in the engine and is this worker's now; at most one worker hears that.
bool Worker::claim_from_engine(Job& job) noexcept {
  JobState expected = JobState::kInEngine;
  return job.state.compare_exchange_strong(expected, JobState::kHeld);
}

void Worker::put_last(Job& job) noexcept {
  job.next_pending = nullptr;
  if (pending_first_ == nullptr) {
    pending_first_ = &job;
  } else {
    pending_last_->next_pending = &job;
  }
  pending_last_ = &job;
}

}  // namespace bascule
