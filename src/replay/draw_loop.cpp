// SPDX-License-Identifier: Apache-2.0
#include "src/replay/draw_loop.h"

#include <ctime>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "src/base/clock.h"
#include "src/base/digest.h"

namespace bascule {
namespace {

// Adds the time since `since` to a sum.
void add_seconds(double* sum, double since) { *sum += monotonic_seconds() - since; }

}  // namespace

// Numbers that are not finite have the largest exponent, and so the largest bits but for the sign.
bool are_finite(const float* values, std::int64_t count) noexcept {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, values + i, sizeof bits);
    largest = std::max(largest, bits & 0x7fffffffu);
  }
  return largest < 0x7f800000u;
}

BatchDrawer::BatchDrawer(RecordedDrawRun& run)
    : run_(run),
      drawer_(run.pipeline, run.recorded, run.program),
      kept_(static_cast<std::size_t>(run.options.prompts), -1),
      used_(kept_.size(), 0),
      prompts_(static_cast<std::size_t>(run.options.batch)) {}

void BatchDrawer::seal(const Arena& arena, Threads& threads) {
  threads_ = &threads;
  drawer_.seal(arena.at(run_.plan[kDrawingMemory]), run_.session.tapes());
  std::byte* const memory = arena.at(run_.plan[kPictureMemory]);
  bytes_ = static_cast<std::uint8_t*>(static_cast<void*>(memory));
  digests_ = static_cast<std::uint64_t*>(static_cast<void*>(memory + run_.digests_offset()));
  run_.files->seal(memory + run_.files_offset());
  if (run_.settings.draw.latents_file.is_given())
    noise_.resize(static_cast<std::size_t>(run_.recorded.latents.channels * run_.recorded.latents.pixels));
}

std::int32_t BatchDrawer::place_of(std::int32_t text) noexcept {
  const auto found = std::find(kept_.begin(), kept_.end(), text);
  std::size_t place = static_cast<std::size_t>(found - kept_.begin());
  if (found == kept_.end()) {
    // In place of the one that was not read for longest: there are as many places as a batch has texts.
    place = static_cast<std::size_t>(std::min_element(used_.begin(), used_.end()) - used_.begin());
    kept_[place] = text;
    const std::vector<std::int32_t>& ids = run_.list.texts[static_cast<std::size_t>(text)].ids;
    ++encoded_texts_;
    drawer_.keep_prompt(static_cast<std::int64_t>(place), {ids.data(), ids.size()}, *threads_);
  }
  used_[place] = batches_;
  return static_cast<std::int32_t>(place);
}

Status BatchDrawer::set_noise(const ListedPicture& picture, std::int64_t number, std::int64_t place) noexcept {
  if (noise_.empty()) {
    drawer_.draw_noise(place, picture.seed, static_cast<std::uint64_t>(picture.noise));
    return ok_status();
  }
  const std::int64_t count = static_cast<std::int64_t>(noise_.size());
  const StoredTensor& stored = *run_.latents.find(kLatentsTensor);
  BASCULE_TRY(run_.latents.try_read_float32(noise_.data(), stored, number * count, count));
  if (!are_finite(noise_.data(), count)) return {StatusCode::kReadFailed, {number, 0}};
  drawer_.set_noise(place, noise_.data());
  return ok_status();
}

void BatchDrawer::digest_latents(int slot, std::int64_t call) noexcept {
  const LatentSlots& slots = run_.recorded.latents;
  const std::size_t bytes = static_cast<std::size_t>(slots.pixels * slots.channels) * sizeof(float);
  for (std::int64_t place = 0; place < static_cast<std::int64_t>(pictures_); ++place)
    digests_[place * run_.latent_digests() + call] = digest_of(drawer_.latents(slot, place), bytes);
}

Span<const std::uint64_t> BatchDrawer::latent_digests(std::int64_t place) const noexcept {
  return {digests_ + place * run_.latent_digests(), static_cast<std::size_t>(run_.latent_digests())};
}

Status BatchDrawer::begin(Span<const std::int64_t> numbers) noexcept {
  const double since = monotonic_seconds();
  ++batches_;
  pictures_ = numbers.size();
  // Texts that are kept already are marked first, so that none of them makes room for another.
  for (const std::int64_t number : numbers) {
    const ListedPicture& picture = run_.list.pictures[static_cast<std::size_t>(number)];
    for (const std::int32_t text : {picture.prompt, picture.negative}) {
      const auto kept = std::find(kept_.begin(), kept_.end(), text);
      if (kept != kept_.end()) used_[static_cast<std::size_t>(kept - kept_.begin())] = batches_;
    }
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const ListedPicture& picture = run_.list.pictures[static_cast<std::size_t>(numbers[i])];
    prompts_[i].prompt = place_of(picture.prompt);
    if (run_.options.is_guided()) prompts_[i].negative = place_of(picture.negative);
    BASCULE_TRY(set_noise(picture, numbers[i], static_cast<std::int64_t>(i)));
  }
  digest_latents(run_.program.calls.front().x, 0);
  add_seconds(&seconds_.prompts, since);
  return ok_status();
}

void BatchDrawer::call(std::size_t number) noexcept {
  const double since = monotonic_seconds();
  drawer_.call(number, {prompts_.data(), pictures_}, *threads_);
  digest_latents(run_.program.calls[number].next, static_cast<std::int64_t>(number) + 1);
  add_seconds(&seconds_.calls, since);
}

const std::uint8_t* BatchDrawer::decode(std::int64_t place) noexcept {
  const double since = monotonic_seconds();
  const LatentSlots& slots = run_.recorded.latents;
  const float* const latents = drawer_.latents(run_.program.calls.back().next, place);
  if (!are_finite(latents, slots.pixels * slots.channels)) return nullptr;
  drawer_.decode(place, *threads_);
  if (!are_finite(drawer_.picture(), 3 * run_.picture_pixels())) return nullptr;
  fill_picture_bytes(bytes_, drawer_.picture(), 3 * run_.picture_pixels());
  add_seconds(&seconds_.decoding, since);
  return bytes_;
}

ProgressStep drawing_step(std::int64_t done, std::int64_t next, std::size_t call, std::size_t calls) noexcept {
  ProgressStep step;
  step.done = done;
  step.epoch = -1.0;
  step.loss = std::numeric_limits<double>::quiet_NaN();
  step.pictures_of_next = calls > 0 ? next : 0;
  step.call = static_cast<std::int64_t>(call);
  step.calls = static_cast<std::int64_t>(calls);
  return step;
}

DrawLoop::DrawLoop(RecordedDrawRun& run, BatchDrawer& drawer, DrawnQueue queue, Group& group, RunStatus* status,
                   const volatile int* stop)
    : run_(run),
      drawer_(drawer),
      queue_(queue),
      group_(group),
      agreement_(group),
      files_(*run.files),
      stop_(stop),
      missing_(run.files->missing()),
      found_(run.files->done().size()),
      progress_(group.is_first() ? Progress::on_stderr() : Progress::silent()) {
  if (status != nullptr) progress_.tell_also(status);
}

Status DrawLoop::run() noexcept {
  const double began = monotonic_seconds();
  progress_.begin("draw", static_cast<std::int64_t>(found_), static_cast<std::int64_t>(run_.list.pictures.size()),
                  began);
  mark_warm();
  const Status ended = draw_missing();
  const double now = monotonic_seconds();
  times_.pictures = drawn();
  times_.seconds = now - began;
  times_.stages = drawer_.seconds();
  times_.encoded_texts = drawer_.encoded_texts();
  if (is_warm_) {
    times_.timed_pictures = drawn() - warm_pictures_;
    times_.timed_seconds = now - warm_seconds_;
  }
  progress_.end(now);
  BASCULE_TRY(ended);
  BASCULE_TRY(agreement_.reach(ok_status(), {}, &signal_));
  return signal_ == 0 ? ok_status() : Status{StatusCode::kStopped, {signal_, 0}};
}

// Its share of the batches, unless a signal comes.
Status DrawLoop::draw_missing() noexcept {
  const std::size_t batches = divide_up(missing_.size(), batch()), ranks = static_cast<std::size_t>(group_.size());
  for (std::size_t b = static_cast<std::size_t>(group_.rank()); b < batches && !is_stopped(); b += ranks) {
    group_.set_phase(RankPhase::kDrawing, static_cast<std::int64_t>(b) + 1);
    BASCULE_TRY(draw_batch(b));
  }
  BASCULE_TRY(wait_for_others());
  if (group_.is_first() && drawn() < static_cast<std::int64_t>(missing_.size())) (void)is_stopped();  // another was
  return ok_status();
}

Status DrawLoop::draw_batch(std::size_t number) noexcept {
  const std::size_t first = number * batch(), count = std::min(batch(), missing_.size() - first);
  // The other ranks draw as well, at about the same pace.
  const std::size_t of_round = batch() * static_cast<std::size_t>(group_.size());
  under_way_ = static_cast<std::int64_t>(std::min(of_round, missing_.size() - first));
  double since = monotonic_seconds();
  BASCULE_TRY(drawer_.begin({missing_.data() + first, count}));
  for (std::size_t call = 0; call < drawer_.calls(); ++call) {
    drawer_.call(call);
    ++times_.replays;
    BASCULE_TRY(collect());
    show(call + 1);
    if (is_stopped()) return ok_status();
  }
  const double each = (monotonic_seconds() - since) / static_cast<double>(count);
  for (std::size_t i = 0; i < count; ++i) {
    since = monotonic_seconds();
    const std::int64_t place = static_cast<std::int64_t>(i), picture = missing_[first + i];
    const std::uint8_t* const pixels = drawer_.decode(place);
    if (pixels == nullptr) return {StatusCode::kNotFinite, {picture, 0}};
    const double decoded = monotonic_seconds();
    DrawnPicture drawn;
    BASCULE_TRY(files_.write(static_cast<std::size_t>(picture), pixels, each + decoded - since, &drawn));
    BASCULE_TRY(keep(drawn, place));
    add_seconds(&times_.writing_seconds, decoded);
  }
  return ok_status();
}

// A picture whose file is there.
Status DrawLoop::keep(const DrawnPicture& picture, std::int64_t place) noexcept {
  const Span<const std::uint64_t> latents = drawer_.latent_digests(place);
  if (!group_.is_first()) {
    while (!queue_.push(group_.rank(), picture, latents)) {
      if (!rest()) return {StatusCode::kRankFailed};
    }
    return ok_status();
  }
  BASCULE_TRY(files_.log(picture, latents));
  mark_warm();
  show(0);
  return ok_status();
}

// By the first rank: the lines of what the others have drawn.
Status DrawLoop::collect() noexcept {
  DrawnQueue::Entry entry;
  for (int rank = 1; group_.is_first() && rank < group_.size(); ++rank) {
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
      show(0);
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

bool DrawLoop::is_stopped() noexcept {
  signal_ = stop_signal();
  return signal_ != 0;
}

// call: of the batch under way; 0: it is drawn.
void DrawLoop::show(std::size_t call) noexcept {
  progress_.step(
      drawing_step(static_cast<std::int64_t>(files_.done().size()), under_way_, call, call > 0 ? drawer_.calls() : 0),
      monotonic_seconds());
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
