// SPDX-License-Identifier: Apache-2.0
#include "src/loader/workers.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <system_error>
#include <utility>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/elementary.h"
#include "src/base/error.h"
#include "src/loader/loader_parts.h"

namespace bascule {
namespace {

// Workers share the cores with the step; where both want one, the step has it nine times of ten.
constexpr int kWorkerNice = 10;

void lower_priority() noexcept {
  const long thread = ::syscall(SYS_gettid);
  (void)::setpriority(PRIO_PROCESS, static_cast<::id_t>(thread), kWorkerNice);
}

// Threads made while this lives take no signals: those go to the thread that decides what to do with them.
class SignalsBlocked : NonCopyable {
 public:
  SignalsBlocked() noexcept {
    ::sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  ::sigset_t before_;
};

}  // namespace

Workers::Workers(const LoaderSettings& settings, const LoaderPlan& plan, std::vector<StreamState*> streams,
                 const WorkersMemory& memory)
    : streams_(std::move(streams)) {
  const std::size_t count = static_cast<std::size_t>(bascule::worker_count(settings));
  const std::size_t jobs_each = static_cast<std::size_t>(plan.jobs_per_worker);
  const std::size_t of_job = buffer_bytes(plan), scratch = scratch_bytes(settings, plan),
                    pictures = augmenting_bytes(settings);
  BASCULE_CHECK(memory.buffers.size() >= count * jobs_each * of_job);
  BASCULE_CHECK(memory.scratch.size() >= count * scratch);
  BASCULE_CHECK(memory.augmenting.size() >= count * pictures);
  jobs_ = std::vector<Job>(count * jobs_each);
  auto* const buffer = static_cast<std::uint8_t*>(static_cast<void*>(memory.buffers.data()));
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    jobs_[i].buffer = Span<std::uint8_t>(buffer + i * of_job, of_job);
    jobs_[i].sequence.store(i);
  }
  if (reads_pictures(settings)) {
    const MediaSettings media = media_settings(settings);
    media_ = std::make_unique<Media>(media, memory.media);
    crew_.media = media_.get();
    crew_.decodes_elsewhere = media_engine_query(media.driver).works_in_poll == 0;
  }
  crew_.streams = Span<StreamState* const>(streams_.data(), streams_.size());
  crew_.jobs = Span<Job>(jobs_.data(), jobs_.size());
  crew_.on_bad_sample = settings.on_bad_sample;
  for (std::size_t i = 0; i < count; ++i) {
    const TextScratch own(memory.scratch.subspan(i * scratch, scratch), plan.longest_text);
    workers_.push_back(std::make_unique<Worker>(crew_, crew_.jobs.subspan(i * jobs_each, jobs_each), own,
                                                memory.augmenting.subspan(i * pictures, pictures)));
  }
  start_threads(settings.workers);
}

Workers::~Workers() { close(); }

void Workers::start_threads(std::int64_t count) {
  const SignalsBlocked blocked;
  try {
    for (std::int64_t i = 0; i < count; ++i) {
      Worker* const worker = workers_[static_cast<std::size_t>(i)].get();
      threads_.emplace_back([worker] {
        lower_priority();
        use_default_float_environment();
        worker->run();
      });
    }
  } catch (const std::system_error& error) {
    close();
    throw Error{ErrorKind::kMemory, "data.dataloader_num_workers",
                std::to_string(count) + ": " + error.code().message(), "use fewer"};
  }
}

void Workers::note_start() noexcept {
  std::int64_t never = 0;
  crew_.started_ns.compare_exchange_strong(never, monotonic_ns());
  wake();
}

void Workers::await(StreamState& stream, std::int64_t number) noexcept {
  if (threads_.empty()) {
    workers_.front()->load(stream, number);
  } else {
    stream.ring.await(number);
  }
}

std::uint64_t Workers::loaded_samples() const noexcept {
  std::uint64_t samples = 0;
  for (const StreamState* const stream : streams_) samples += static_cast<std::uint64_t>(stream->loaded_samples.load());
  return samples;
}

std::int64_t Workers::row_being_read() const noexcept {
  for (const std::unique_ptr<Worker>& worker : workers_) {
    if (const std::int64_t row = worker->row_being_read(); row >= 0) return row;
  }
  return -1;
}

LoaderStatistics Workers::statistics() const noexcept {
  LoaderStatistics result;
  result.loaded_samples = static_cast<std::int64_t>(loaded_samples());
  for (const std::unique_ptr<Worker>& worker : workers_)
    result.worker_wait_seconds += static_cast<double>(worker->wait_ns()) * 1e-9;
  result.media = media_ != nullptr ? media_engine_get_statistics(media_->engine()) : final_media_;
  return result;
}

// The reset makes workers come back that are in the midst of a picture.
void Workers::close() noexcept {
  if (crew_.is_closing.exchange(true)) return;
  crew_.work.raise();
  if (media_ != nullptr) (void)media_engine_reset(media_->engine());
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  if (media_ == nullptr) return;
  final_media_ = media_engine_get_statistics(media_->engine());
  media_.reset();
}

}  // namespace bascule
