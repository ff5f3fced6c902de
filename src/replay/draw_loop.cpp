// SPDX-License-Identifier: Apache-2.0
#include "src/replay/draw_loop.h"

#include <ctime>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "src/base/clock.h"
#include "src/files/durable_write.h"

namespace bascule {

DrawLoop::DrawLoop(RecordedDrawRun& run, SealedDrawRun& sealed, Group& group, RunStatus* status,
                   const volatile int* stop)
    : run_(run),
      sealed_(sealed),
      group_(group),
      files_(*run.files),
      queue_(sealed.queue()),
      stop_(stop),
      missing_(run.files->missing()),
      found_(run.files->done().size()),
      progress_(group.is_first() ? Progress::on_stderr() : Progress::silent()) {
  if (status != nullptr) progress_.tell_also(status);
}

Status DrawLoop::run(DrawResults* results, int* signal) noexcept {
  progress_.begin("draw", static_cast<std::int64_t>(found_), static_cast<std::int64_t>(run_.list.pictures.size()),
                  monotonic_seconds());
  const double began = monotonic_seconds();
  Status status = ok_status();
  *signal = stop_signal();
  mark_warm();
  const std::size_t batches = divide_up(missing_.size(), batch()), ranks = static_cast<std::size_t>(group_.size());
  for (std::size_t b = static_cast<std::size_t>(group_.rank()); b < batches && *signal == 0 && status.ok();
       b += ranks) {
    group_.set_phase(RankPhase::kDrawing, static_cast<std::int64_t>(b) + 1);
    status = draw_batch(b, results, signal);
    if (status.ok()) status = collected_;
    if (*signal == 0 && b + ranks < batches) *signal = stop_signal();
  }
  if (status.ok()) status = wait_for_others();
  if (status.ok() && *signal == 0 && drawn() < static_cast<std::int64_t>(missing_.size()) && group_.is_first())
    *signal = stop_signal();  // another rank was stopped
  const double ended = monotonic_seconds();
  results->pictures = drawn();
  results->seconds = ended - began;
  results->replays = replays_;
  if (is_warm_) {
    results->timed_pictures = drawn() - warm_pictures_;
    results->timed_seconds = ended - warm_seconds_;
  }
  progress_.end(ended);
  return status;
}

int DrawLoop::called(std::int64_t call, std::int64_t calls) noexcept {
  ++replays_;
  if (collected_.ok()) collected_ = collect();
  show(call, calls);
  return stop_signal();
}

Status DrawLoop::draw_batch(std::size_t number, DrawResults* results, int* signal) noexcept {
  const std::size_t first = number * batch(), count = std::min(batch(), missing_.size() - first);
  // The other ranks draw as well, at about the same pace.
  const std::size_t of_round = batch() * static_cast<std::size_t>(group_.size());
  under_way_ = std::min(of_round, missing_.size() - first);
  double since = monotonic_seconds();
  BASCULE_TRY(sealed_.draw({missing_.data() + first, count}, this, signal));
  const double each = (monotonic_seconds() - since) / static_cast<double>(count);
  for (std::size_t i = 0; i < count && *signal == 0; ++i) {
    since = monotonic_seconds();
    const std::int64_t place = static_cast<std::int64_t>(i), picture = missing_[first + i];
    const std::uint8_t* const pixels = sealed_.decode(place);
    if (pixels == nullptr) return {StatusCode::kNotFinite, {picture, 0}};
    const double decoded = monotonic_seconds();
    DrawnPicture drawn;
    BASCULE_TRY(files_.write(static_cast<std::size_t>(picture), pixels, each + decoded - since, &drawn));
    BASCULE_TRY(keep(drawn, place));
    results->writing_seconds += monotonic_seconds() - decoded;
  }
  return ok_status();
}

// A picture whose file is there.
Status DrawLoop::keep(const DrawnPicture& picture, std::int64_t place) noexcept {
  const Span<const std::uint64_t> latents = sealed_.latent_digests(place);
  if (!group_.is_first()) {
    while (!queue_.push(group_.rank(), picture, latents)) {
      if (!rest()) return {StatusCode::kRankFailed};
    }
    return ok_status();
  }
  BASCULE_TRY(files_.log(picture, latents));
  mark_warm();
  show(0, 0);
  return ok_status();
}

// By the first rank: the lines of what the others have drawn.
Status DrawLoop::collect() noexcept {
  if (!group_.is_first()) return ok_status();
  DrawnQueue::Entry entry;
  for (int rank = 1; rank < group_.size(); ++rank) {
    while (queue_.front(rank, &entry)) {
      BASCULE_TRY(files_.log(entry.picture, entry.latents));
      queue_.pop(rank);
      mark_warm();
    }
  }
  return ok_status();
}

Status DrawLoop::wait_for_others() noexcept {
  (void)stop_signal();  // passes on one that came during the last picture
  if (!group_.is_first()) {
    queue_.end(group_.rank());
    return ok_status();
  }
  for (int rank = 1; rank < group_.size(); ++rank) {
    while (!queue_.is_done(rank)) {
      BASCULE_TRY(collect());
      under_way_ = 0;
      show(0, 0);
      (void)stop_signal();  // passes on one that comes now
      if (!rest()) return {StatusCode::kRankFailed};
    }
  }
  return ok_status();
}

// False: another rank has failed. To wait is no silence.
bool DrawLoop::rest() noexcept {
  const timespec pause{0, 2'000'000};
  nanosleep(&pause, nullptr);
  group_.heart().beat();
  return !group_.has_failed();
}

void DrawLoop::mark_warm() noexcept {
  const std::int64_t warmup = run_.settings.draw.throughput_warmup_batches;
  if (is_warm_ || warmup * run_.options.batch > drawn()) return;
  is_warm_ = true;
  warm_pictures_ = drawn();
  warm_seconds_ = monotonic_seconds();
}

// A signal that reaches one rank stops all.
int DrawLoop::stop_signal() noexcept {
  if (*stop_ != 0) group_.stop_all(*stop_);
  return group_.stop_signal();
}

void DrawLoop::show(std::int64_t call, std::int64_t calls) noexcept {
  ProgressStep step;
  step.done = static_cast<std::int64_t>(files_.done().size());
  step.epoch = -1.0;
  step.loss = std::numeric_limits<double>::quiet_NaN();
  step.pictures_of_next = calls > 0 ? static_cast<std::int64_t>(under_way_) : 0;
  step.call = call;
  step.calls = calls;
  progress_.step(step, monotonic_seconds());
}

Error drawing_error(const Status& status, const RecordedDrawRun& run) {
  const int number = static_cast<int>(status.detail[0]);
  switch (status.code) {
    case StatusCode::kNotFinite:
      return Error(
          ErrorKind::kData, PictureName(static_cast<std::size_t>(status.detail[0]), run.list.pictures.size()).text(),
          "its numbers are not finite", "the weights of the model may be damaged, or draw.guidance_scale too large");
    case StatusCode::kReadFailed:
      return Error(ErrorKind::kData, run.settings.draw.latents_file.shown(),
                   number < 0 ? "cannot be read any more"
                              : "\"latents\" of picture " + std::to_string(status.detail[0]) +
                                    " have numbers that are not finite");
    default:
      return Error(
          ErrorKind::kDisk, run.settings.run.output_dir.shown(),
          std::string("cannot be written: ") + std::strerror(number),
          std::string(advice_for_disk(number)) + "; finished pictures are complete; the same command draws the rest");
  }
}

}  // namespace bascule
