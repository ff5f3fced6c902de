// SPDX-License-Identifier: Apache-2.0
// The loop's checkpoints: when they are made, and what the next process needs to find in them.
#include <algorithm>
#include <cstdio>
#include <iterator>

#include "src/base/clock.h"
#include "src/replay/loop.h"

namespace bascule {

// As the next process is to find it.
TrainingPosition TrainingLoop::position_to_save(double now) const noexcept {
  TrainingPosition position = at_;
  position.earlier = totals();
  position.best = control_.best();
  const std::int64_t last = control_.settings().total_updates;
  position.ended_at = last < run_.pace.length.total_updates ? last : 0;
  if (at_.interval_steps == 0) return position;
  position.interval_wall_seconds += now - interval_began_ - interval_paused_;
  position.interval_loader_wait_seconds += p_.loader.statistics().worker_wait_seconds - loader_waited_;
  for (int phase = 0; phase < kStepPhases; ++phase) position.interval_seconds[phase] += interval_.seconds[phase];
  return position;
}

// Before a save: the checkpoint of the best weights, if they are these.
void TrainingLoop::keep_if_best() noexcept {
  control_.saves(at_.global_step);
  if (control_.best().checkpoint == at_.global_step && p_.group.is_first()) at_.best_digest = digest_of_weights();
}

// By rank 0; the others wait for it.
Status TrainingLoop::save() noexcept {
  const double began = monotonic_seconds();
  measure(began);
  p_.group.set_phase(RankPhase::kSaving);
  if (control_.saves_after(at_.global_step)) keep_if_best();
  BASCULE_TRY(gather_replaced());
  BASCULE_TRY(agreement_.reach(write_or_serve()));
  const double seconds = monotonic_seconds() - began;
  times_.save_seconds += seconds;
  ++times_.checkpoints;
  interval_paused_ += seconds;
  char text[96];
  std::snprintf(text, sizeof text, "saved checkpoint-%lld in %.2f s", static_cast<long long>(at_.global_step), seconds);
  out_.progress.note(text);
  return ok_status();
}

// Where nodes share out the optimizer's states rank 0 asks the others for theirs. If a node fails before finish(), the
// agreement that follows reports it.
Status TrainingLoop::write_or_serve() noexcept {
  if (!p_.group.is_first()) return saving_.states != nullptr ? saving_.states->serve() : ok_status();
  const Status written = write_checkpoint();
  if (saving_.states != nullptr) saving_.states->finish();
  return written;
}

// The rows that show a picture of a sample that was replaced, or that ended the run, or one that is missing.
Span<const std::int64_t> TrainingLoop::bad_rows(Span<const ReplacedSample> replaced) noexcept {
  const std::size_t count = std::min(replaced.size(), replaced_rows_.size());
  for (std::size_t i = 0; i < count; ++i) replaced_rows_[i] = replaced[i].bad_row;
  const Manifest& manifest = *run_.data.find(Split::kTrain)->manifest;
  const std::size_t found =
      find_bad_rows(manifest, Span<std::int64_t>(replaced_rows_.data(), count), Span<BadRow>(bad_rows_));
  static_assert(sizeof(BadRow) == 3 * sizeof(std::int64_t));
  return {static_cast<const std::int64_t*>(static_cast<const void*>(bad_rows_.data())), 3 * found};
}

void TrainingLoop::fill(SavedMoment* saved) noexcept {
  const Stream& stream = train_stream();
  const Span<const ReplacedSample> replaced =
      saving_.replaced != nullptr ? saving_.replaced->merge() : stream.replacements();
  const std::int64_t bad_samples =
      saving_.replaced != nullptr ? saving_.replaced->bad_samples() : stream.statistics().bad_samples;
  const NamedNumber of_loop[] = {{"best_figure_number", static_cast<double>(run_.pace.best_figure_number())},
                                 {"bad_samples", static_cast<double>(bad_samples)},
                                 {"step_records_appended", static_cast<double>(out_.steps.appended())},
                                 {"step_records_stride", static_cast<double>(out_.steps.stride())},
                                 {"evaluation_records_appended", static_cast<double>(out_.evaluations.appended())},
                                 {"evaluation_records_stride", static_cast<double>(out_.evaluations.stride())}};
  static_assert(sizeof of_loop / sizeof of_loop[0] == kLoopNumbers);
  std::copy(std::begin(of_loop), std::end(of_loop), saved->numbers);
  write_numbers(position_to_save(began_ + times_.wall_seconds), saved->numbers + kLoopNumbers);
  const auto bytes = [](auto records) {
    return std::string_view(static_cast<const char*>(static_cast<const void*>(records.data())), records.size_bytes());
  };
  saved->texts[0] = bytes(out_.steps.records());
  saved->texts[1] = bytes(out_.evaluations.records());
  const Span<PictureDigest> digests = p_.loader.picture_digests(run_.data.find(Split::kTrain)->stream);
  for (std::size_t i = 0; i < saving_.picture_digests.size(); ++i)
    saving_.picture_digests[i] = digests[i].load(std::memory_order_relaxed);
  saved->texts[2] = bytes(saving_.picture_digests);
  CheckpointMoment& moment = saved->moment;
  moment.global_step = at_.global_step;
  moment.samples_seen = run_.pace.length.samples_of(at_.global_step);
  moment.epoch = epoch_of(at_.global_step);
  moment.best_step = control_.best().checkpoint;
  moment.numbers = Span<const NamedNumber>(saved->numbers, kLoopNumbers + kPositionNumbers);
  moment.replacements = replaced;
  moment.bad_rows = bad_rows(replaced);
  const bool averages = p_.averaged_evaluation != nullptr;
  if (averages) saved->texts[3] = bytes(out_.averaged_evaluations.records());
  moment.texts = Span<const std::string_view>(saved->texts, averages ? 4 : 3);
}

Status TrainingLoop::write_checkpoint() noexcept {
  // Before an older checkpoint gives way to this one. Loss and gradient were judged before the update that is saved.
  if (!p_.session.training().update().parameters_are_finite(p_.threads))
    return {StatusCode::kNotFinite, {at_.global_step, 0}};
  SavedMoment saved;
  fill(&saved);
  if (!out_.events.sync().ok()) out_.progress.note("TensorBoard events could not be synced");
  if (!out_.log.sync().ok()) out_.progress.note("log.jsonl could not be synced");
  if (p_.hashes != nullptr) BASCULE_TRY(p_.hashes->sync());
  const auto beat = [](void* group, std::int64_t) noexcept { static_cast<Group*>(group)->heart().beat(); };
  return saving_.writer->save(saved.moment, {beat, &p_.group});
}

// Which samples of the training data were replaced, by rank 0 of all ranks.
Status TrainingLoop::gather_replaced() noexcept {
  if (saving_.replaced == nullptr || saving_.replaced->gather(train_stream())) return ok_status();
  return {StatusCode::kRankFailed, {-1, 0}};
}

Status TrainingLoop::save_last_state() noexcept {
  const std::int64_t best = control_.best().checkpoint;
  const bool is_removed = run_.settings.training.save_total_limit == 1 && best >= 0 && best != at_.global_step;
  if (!run_.resume.finished && !is_removed) return ok_status();
  BASCULE_TRY(gather_replaced());
  Status written = ok_status();
  if (p_.group.is_first()) {
    SavedMoment saved;
    fill(&saved);
    written = saving_.writer->save_last_state(saved.moment);
  }
  return agreement_.reach(written);
}

// Trained weights are kept, whatever ends the run: they are those of a whole update, but where a fused update met a
// gradient that is not finite, and then nothing is saved.
Status TrainingLoop::save_and(Status status) noexcept {
  const double now = monotonic_seconds();
  if (p_.group.has_failed()) return status;
  out_.progress.begin("train", at_.global_step, run_.pace.length.total_updates, now);
  const bool worth_saving =
      status.code != StatusCode::kNotFinite && status.code != StatusCode::kDiskFailed && at_.global_step > 0;
  if (worth_saving) BASCULE_TRY(save());
  // Where values are not finite nothing is saved, but their hashes are of use.
  if (p_.hashes != nullptr && p_.group.is_first() && status.code == StatusCode::kNotFinite)
    BASCULE_TRY(p_.hashes->sync());
  out_.progress.end(now);
  return status;
}

}  // namespace bascule
