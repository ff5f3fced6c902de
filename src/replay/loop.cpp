// SPDX-License-Identifier: Apache-2.0
#include "src/replay/loop.h"

#include <algorithm>
#include <cmath>

#include "src/base/clock.h"
#include "src/record/plan_data.h"
#include "src/record/run_inputs.h"

namespace bascule {

TrainingLoop::TrainingLoop(const RecordedRun& run, const Parts& parts, const Saving& saving, TrainingOutputs* outputs,
                           const TrainingPosition& position)
    : run_(run),
      p_(parts),
      saving_(saving),
      out_(*outputs),
      at_(position),
      control_(run.pace.control, position.best),
      agreement_(parts.group),
      batch_weights_(run.graphs.trains() ? run.graphs.of_loss().recording.losses.size() : 0),
      weights_step_(run.resume.finished ? run.resume.finished->step : position.global_step),
      other_rows_until_(run.resume.point && !has_same_validation(run.resume) ? position.global_step : -1),
      saves_first_(saves_first(run.settings.run.output_dir.resolved, run.resume)),
      mlperf_figure_(mlperf_figure(run)) {
  if (!run.graphs.trains()) return;
  for (const NamedTensor& output : run.graphs.of_loss().recording.outputs) {
    if (output.name == kSentenceEmbedding) vectors_ = output.tensor;
  }
  for (const LossTerm& term : run.graphs.of_loss().recording.losses) counts_early_ |= term.stream != kSamples;
  if (saving.writer == nullptr) return;
  replaced_rows_.resize(static_cast<std::size_t>(run.data.loader.max_replacements));
  bad_rows_.resize(kMostBadRowsKept);
}

// Sets the units of the batches' weights in an update (BatchWeights). With one term the unit is its rows in the first
// micro-batch, because nobody knows yet how many are to come, and the update divides. Terms that share a gradient need
// their rows in the whole update: samples follow from the cut of the epoch, labelled tokens are counted ahead.
Status TrainingLoop::begin_batch_weights(const RowsByTerm& first, std::int64_t index, std::int64_t batches) noexcept {
  const std::vector<LossTerm>& losses = run_.graphs.of_loss().recording.losses;
  RowsByTerm units = first;
  for (std::size_t t = 0; losses.size() > 1 && batches > 1 && t < losses.size(); ++t) {
    if (losses[t].stream == kSamples) {
      units[t] = 0.0;
      for (std::int64_t i = 0; i < batches; ++i)
        units[t] += static_cast<double>(run_.pace.length.cut.batch(index + i).count);
    } else {
      units[t] = static_cast<double>(train_stream().labelled_ahead(batches));
      BASCULE_TRY(agreement_.reach(ok_status(), {&units[t], 1}));
    }
  }
  batch_weights_.begin(units);
  return ok_status();
}

// Gives a micro-batch its weight, by the rows that it has in this rank and in all ranks. Where ranks meet early, all
// learn here if one of them could not load its batch. number: among the update's micro-batches.
Status TrainingLoop::count_batch(const Status& loaded, const Batch* batch, std::int64_t number,
                                 std::int64_t batches) noexcept {
  const std::vector<LossTerm>& losses = run_.graphs.of_loss().recording.losses;
  if (!meets_early()) BASCULE_TRY(loaded);
  RowsByTerm own = {};
  for (std::size_t t = 0; loaded.ok() && t < losses.size(); ++t)
    own[t] = static_cast<double>(batch->counts[losses[t].stream]);
  RowsByTerm all = own;
  if (meets_early()) BASCULE_TRY(agreement_.reach(loaded, {all.data(), losses.size()}));
  for (std::size_t t = 0; t < losses.size(); ++t) {
    if (losses[t].stream == kSamples) all[t] = static_cast<double>(batch->positions_of_all);
  }
  if (number == 0) BASCULE_TRY(begin_batch_weights(all, batch->index, batches));
  batch_weights_.count(own, all);
  return ok_status();
}

// Call before the update's last replay that writes gradients: as its steps run, gradients become final.
void TrainingLoop::begin_last_gradients() noexcept {
  p_.group.position().begin_gradients(at_.global_step + 1);
  p_.session.training().begin(update_settings());
}

// Adds the loss of the batch that was just replayed. Before the next replay of any tape, which may overwrite it.
void TrainingLoop::add_loss() noexcept {
  const RecordedGraph& graph = run_.graphs.of_loss();
  const std::vector<LossTerm>& losses = graph.recording.losses;
  for (std::size_t t = 0; t < losses.size(); ++t)
    loss_ += batch_weights_.of_all(t) * batch_weights_.share(t) *
             static_cast<double>(*p_.session.tape(graph.number).at(losses[t].loss));
}

// Looks for a vector that the loss cannot compare with others (zero, or not finite), and keeps the update's first one.
// Like add_loss(), before the next replay.
void TrainingLoop::look_at_vectors(const Batch& batch) noexcept {
  if (!vectors_ || !vectors_found_.ok()) return;
  const std::size_t number = run_.graphs.of_loss().number;
  const TensorInfo& info = p_.session.graph(number)[vectors_];
  const std::int64_t texts = info.rows.per_row;
  const float* vector = p_.session.tape(number).at(vectors_);
  for (std::int64_t text = 0; text < batch.counts.samples() * texts; ++text, vector += info.cols) {
    double squares = 0.0;
    for (std::int64_t i = 0; i < info.cols; ++i)
      squares += static_cast<double>(vector[i]) * static_cast<double>(vector[i]);
    if (squares > 0.0 && std::isfinite(squares)) continue;
    vectors_found_ = bad_vector(at_.global_step + 1, batch.rows_of_texts[text / texts], text % texts, squares == 0.0);
    return;
  }
}

// Replays the training tape, or, where batches go through the model in pieces, their tapes. False: another rank failed.
bool TrainingLoop::replay_tapes(const Replay& replay, bool last) noexcept {
  if (BatchPieces* const pieces = p_.pieces) {
    pieces->find_loss(p_.threads, replay);
    add_loss();
    look_at_vectors(replay.batch);
    for (std::int64_t i = 0; i < pieces->count(); ++i) {
      if (last && i == pieces->count() - 1) begin_last_gradients();
      pieces->add_gradients(i, p_.threads, replay);
    }
    times_.pieces += pieces->count();
    return true;
  }
  if (last) begin_last_gradients();
  if (!p_.session.training().replay(p_.threads, replay)) return false;
  add_loss();
  look_at_vectors(replay.batch);
  return true;
}

// Seconds in the backward steps of all replays so far.
double TrainingLoop::backward_seconds() const noexcept {
  const RecordedGraphs& graphs = run_.graphs;
  const double seconds = p_.session.tape(graphs[Use::kTrain].number).seconds(true);
  return p_.pieces == nullptr ? seconds : seconds + p_.session.tape(graphs.of_loss().number).seconds(true);
}

// Computes gradients of this rank's share of a micro-batch. first, last: it is the update's first or last one.
Status TrainingLoop::replay(const Batch& batch, bool first, bool last) noexcept {
  const std::uint64_t seed = static_cast<std::uint64_t>(run_.settings.run.seed);
  Replay replay;
  if (p_.gathered != nullptr)
    replay.peers = p_.gathered->peers(run_.pace.length.cut, {batch.first_position_of_all, batch.positions_of_all});
  if (batch.counts.samples() == 0) {
    if (last) begin_last_gradients();
    if (p_.gathered != nullptr) replay.peers.gather(replay.peers.context, nullptr, nullptr, 0, 0, 0);
    return p_.session.training().replay_without_samples(p_.threads, first) ? ok_status()
                                                                           : Status{StatusCode::kRankFailed, {-1, 0}};
  }
  replay.batch = batch;
  if (p_.gathered != nullptr) replay.batch.counts[kSamplesOfAllRanks] = batch.positions_of_all;
  // Gathered, every rank has the loss of all samples and a part of its gradient; else the loss of its own.
  const std::vector<LossTerm>& losses = run_.graphs.of_loss().recording.losses;
  for (std::size_t t = 0; t < losses.size(); ++t) {
    const double own =
        p_.gathered != nullptr ? batch_weights_.of_all(t) : batch_weights_.of_all(t) * batch_weights_.share(t);
    replay.loss_weights[t] = static_cast<float>(own);
  }
  replay.add_to_gradients = !first;
  replay.dropout_key[0] = static_cast<std::uint32_t>(seed) ^ static_cast<std::uint32_t>(seed >> 32) * 0x9E3779B9u;
  replay.dropout_key[1] = static_cast<std::uint32_t>(at_.global_step);
  return replay_tapes(replay, last) ? ok_status() : Status{StatusCode::kRankFailed, {-1, 0}};
}

Status TrainingLoop::micro_batch(std::int64_t number, std::int64_t batches, std::int64_t* samples) noexcept {
  Stream& stream = train_stream();
  const double began = monotonic_seconds();
  const Batch* batch = nullptr;
  p_.group.set_phase(RankPhase::kWaitingForData, at_.global_step + 1);
  const Status next = stream.next(&batch);
  const double loaded = monotonic_seconds();
  interval_.seconds[static_cast<int>(StepPhase::kWaitForData)] += loaded - began;
  p_.group.set_phase(RankPhase::kComputing);
  double backward = 0.0, taken = 0.0;  // taken: seconds in which the ring's gradients were summed or used
  BASCULE_TRY(count_batch(next, batch, number, batches));
  if (run_.settings.machine.step_seconds > 0.0) {
    sleep_until(loaded + run_.settings.machine.step_seconds);
  } else {
    const double backward_before = backward_seconds();
    BASCULE_TRY(replay(*batch, number == 0, number + 1 == batches));
    backward = backward_seconds() - backward_before;
    taken = p_.session.training().reduction_seconds();
  }
  *samples += batch->counts.samples();
  for (int i = 0; i < kMaxStreams; ++i) times_.rows[i] += batch->counts[i];
  ++times_.micro_batches;
  stream.release();
  const StepPhase ring_phase = p_.session.training().fused() != nullptr ? StepPhase::kUpdate : StepPhase::kReduction;
  interval_.seconds[static_cast<int>(StepPhase::kForward)] += monotonic_seconds() - loaded - backward - taken;
  interval_.seconds[static_cast<int>(StepPhase::kBackward)] += backward;
  interval_.seconds[static_cast<int>(ring_phase)] += taken;
  return ok_status();
}

// Runs all micro-batches of the update.
Status TrainingLoop::compute_gradients(std::int64_t* samples) noexcept {
  const std::int64_t micro = run_.pace.length.place_of(at_.global_step).batches;
  loss_ = 0.0;
  vectors_found_ = ok_status();
  for (std::int64_t i = 0; i < micro; ++i) {
    BASCULE_TRY(micro_batch(i, micro, samples));
  }
  p_.group.position().end_gradients();
  return ok_status();
}

// Every rank has its gradients: sums loss and samples over the ranks, and agrees on signals and requests to end.
Status TrainingLoop::sum_over_ranks(const Status& computed, std::int64_t* samples) noexcept {
  if (!computed.ok() && meets_early()) return computed;  // all ranks know: see count_batch
  const double began = monotonic_seconds();
  p_.group.set_phase(RankPhase::kReducing);
  const bool is_asked_to_end = p_.ends_early != nullptr && p_.ends_early->is_made();
  double sums[] = {loss_, static_cast<double>(*samples), is_asked_to_end ? 1.0 : 0.0};
  signal_ = *p_.stop != 0 ? *p_.stop : p_.group.stop_signal();
  BASCULE_TRY(agreement_.reach(computed.ok() ? vectors_found_ : computed, {sums, 3}, &signal_));
  if (signal_ != 0) p_.group.stop_all(signal_);  // one to a rank alone: the launcher asks its own node
  loss_ = sums[0] * batch_weights_.factor();
  *samples = static_cast<std::int64_t>(sums[1]);
  ends_early_ = sums[2] > 0.0;
  interval_.seconds[static_cast<int>(StepPhase::kReduction)] += p_.group.size() > 1 ? monotonic_seconds() - began : 0.0;
  return ok_status();
}

// How much of the new weights their average takes in. During the warm-up it copies them.
double TrainingLoop::average_share(std::int64_t step) const noexcept {
  const TrainingSettings& training = run_.settings.training;
  if (training.ema_decay == 0.0 || step % training.ema_steps != 0) return 0.0;
  return step <= run_.pace.schedule.warmup_steps ? 1.0 : 1.0 - training.ema_decay;
}

// The settings of the update under way, once its micro-batches are counted.
UpdateSettings TrainingLoop::update_settings() const noexcept {
  const TrainingSettings& training = run_.settings.training;
  UpdateSettings settings;
  settings.learning_rate = rate_;
  settings.beta1 = training.adam_beta1;
  settings.beta2 = training.adam_beta2;
  settings.epsilon = training.adam_epsilon;
  settings.weight_decay = training.weight_decay;
  settings.max_grad_norm = training.max_grad_norm;
  settings.step = at_.global_step + 1;
  settings.gradient_factor = batch_weights_.factor();
  settings.groups = run_.pace.group_rules;
  settings.average_share = average_share(settings.step);
  if (p_.hashes != nullptr && settings.step % run_.settings.report.hash_steps == 0) settings.observer = p_.hashes;
  return settings;
}

// Sums gradients over the ranks, clips them, runs the optimizer and averages weights; a fused update only ends here.
Status TrainingLoop::update() noexcept {
  const double began = monotonic_seconds();
  p_.group.set_phase(RankPhase::kUpdating);
  const UpdateSettings settings = update_settings();
  const bool hashes = settings.observer != nullptr;
  const Update& update = p_.session.training().update();
  norm_ = p_.session.training().finish(p_.threads, settings);
  times_.wire_seconds += update.wire_seconds();
  if (!std::isfinite(loss_) || !std::isfinite(norm_)) return {StatusCode::kNotFinite, {at_.global_step + 1, 0}};
  if (hashes && p_.group.is_first()) BASCULE_TRY(p_.hashes->keep(settings.step));
  const double reduction = p_.group.size() > 1 ? update.reduction_seconds() : 0.0;
  interval_.seconds[static_cast<int>(StepPhase::kReduction)] += reduction;
  interval_.seconds[static_cast<int>(StepPhase::kUpdate)] += monotonic_seconds() - began - reduction;
  return ok_status();
}

// One update, counted in records and throughput.
Status TrainingLoop::step() noexcept {
  const TrainingSettings& training = run_.settings.training;
  rate_ = run_.pace.schedule.at(at_.global_step);
  std::int64_t samples = 0;
  BASCULE_TRY(sum_over_ranks(compute_gradients(&samples), &samples));
  if (run_.settings.machine.step_seconds == 0.0) BASCULE_TRY(update());
  weights_step_ = ++at_.global_step;
  at_.loss_sum += loss_;
  at_.interval_loss += loss_;
  if (!batch_weights_.has_rows()) {  // the loss is 0, a mean of nothing
    ++at_.without_loss;
    ++at_.interval_without_loss;
  }
  at_.interval_steps += 1;
  at_.interval_samples += samples;
  ++interval_steps_;
  samples_here_ += samples;
  times_.samples += samples;
  ++steps_here_;
  ++times_.updates;
  if (steps_here_ > training.throughput_warmup_steps) {
    times_.counted_samples += samples;
    ++times_.counted_steps;
  }
  return ok_status();
}

void TrainingLoop::log(bool last) noexcept {
  const TrainingSettings& training = run_.settings.training;
  if (at_.global_step % training.logging_steps != 0 && !last) return;
  if (at_.interval_steps == 0) return;
  const double now = monotonic_seconds();
  const LoaderStatistics loader = p_.loader.statistics();
  const StreamStatistics stream = train_stream().statistics();
  interval_.steps = interval_steps_;
  interval_.samples = samples_here_;
  interval_.wall_seconds = now - interval_began_ - interval_paused_;
  interval_.loader_wait_seconds = loader.worker_wait_seconds - loader_waited_;
  times_.totals.add(interval_);
  // With the part of an earlier process, where one was stopped within the interval.
  interval_.global_step = at_.global_step;
  interval_.steps = at_.interval_steps;
  interval_.samples = at_.interval_samples;
  interval_.epoch = epoch_of(at_.global_step);
  interval_.loss = mean_loss(at_.interval_loss, at_.interval_steps - at_.interval_without_loss);
  interval_.grad_norm = norm_;
  interval_.learning_rate = rate_;
  interval_.wall_seconds += at_.interval_wall_seconds;
  interval_.loader_wait_seconds += at_.interval_loader_wait_seconds;
  for (int phase = 0; phase < kStepPhases; ++phase) interval_.seconds[phase] += at_.interval_seconds[phase];
  interval_.samples_per_second =
      interval_.wall_seconds > 0.0 ? static_cast<double>(interval_.samples) / interval_.wall_seconds : 0.0;
  interval_.loader_samples_per_second = deliverable_samples_per_second({}, stream);
  interval_.ring_occupancy = stream.mean_occupancy;
  out_.steps.append(interval_);
  // A failed write to TensorBoard is no reason to stop a run: the records stay, and a note says so.
  const double time = unix_seconds();
  if (!out_.events.step(interval_, time).ok()) out_.progress.note("TensorBoard events could not be written");
  if (!out_.log.step(interval_, time).ok()) out_.progress.note("log.jsonl could not be written");
  if (!out_.tracking.step(interval_, time).ok()) out_.progress.note("MLflow's metrics could not be written");
  out_.progress.record(interval_);
  interval_ = StepRecord{};
  at_.interval_loss = at_.interval_wall_seconds = at_.interval_loader_wait_seconds = 0.0;
  std::fill_n(at_.interval_seconds, kStepPhases, 0.0);
  at_.interval_steps = at_.interval_samples = at_.interval_without_loss = 0;
  interval_steps_ = samples_here_ = 0;
  loader_waited_ = loader.worker_wait_seconds;
  interval_began_ = now;
  interval_paused_ = 0.0;
}

// Times of this process up to now.
void TrainingLoop::measure(double now) noexcept {
  const double paused = times_.evaluation_seconds + times_.save_seconds;
  times_.wall_seconds = now - began_;
  times_.counted_seconds = times_.counted_steps > 0 ? now - counted_from_ - (paused - paused_before_) : 0.0;
  times_.could_deliver = deliverable_samples_per_second(loaded_before_, train_stream().statistics());
}

RunTotals TrainingLoop::totals() const noexcept {
  RunTotals all = at_.earlier;
  all.processes += 1.0;
  all.updates += static_cast<double>(times_.updates);
  all.seconds += times_.wall_seconds;
  all.counted_samples += static_cast<double>(times_.counted_samples);
  all.counted_updates += static_cast<double>(times_.counted_steps);
  all.counted_seconds += times_.counted_seconds;
  all.samples += static_cast<double>(times_.samples);
  all.micro_batches += static_cast<double>(times_.micro_batches);
  for (int i = 0; i < kMaxStreams; ++i) all.rows[i] += static_cast<double>(times_.rows[i]);
  return all;
}

void TrainingLoop::begin() noexcept {
  const TrainingLength& length = run_.pace.length;
  train_stream().start(length.batch_of(at_.global_step), length.batch_of(length.total_updates));
}

Status TrainingLoop::run() noexcept {
  const TrainingSettings& training = run_.settings.training;
  const TrainingLength& length = run_.pace.length;
  began_ = counted_from_ = interval_began_ = monotonic_seconds();
  if (!run_.resume.finished) BASCULE_TRY(catch_up());
  const bool is_over = run_.resume.is_over || control_.ends_after(at_.global_step);
  if (!run_.resume.finished) out_.progress.begin("train", at_.global_step, length.total_updates, monotonic_seconds());
  if (!is_over) begin();
  while (!is_over && !control_.ends_after(at_.global_step)) {
    out_.mlperf.begin_block(place_of(at_.global_step));
    if (const Status status = step(); !status.ok()) return save_and(status);
    const double now = monotonic_seconds();
    if (steps_here_ == training.throughput_warmup_steps) {
      counted_from_ = now;
      paused_before_ = times_.evaluation_seconds + times_.save_seconds;
      loaded_before_ = train_stream().statistics();
    }
    const double rate = now > interval_began_ ? static_cast<double>(samples_here_) / (now - interval_began_) : 0.0;
    const double loss = mean_loss(loss_, batch_weights_.has_rows() ? 1 : 0);
    out_.progress.step({at_.global_step, epoch_of(at_.global_step), loss, rate}, now);
    if (ends_early_ && !control_.ends_after(at_.global_step)) {
      control_.end_with(at_.global_step);
      out_.progress.note("ending early, as `bascule stop` asked");
    }
    // The interval is closed before the evaluation that may end training: a run that is stopped during it has the same
    // records.
    log(control_.may_end_after(at_.global_step));
    if (control_.evaluates_after(at_.global_step)) {
      if (const Status status = evaluate_and_judge(); !status.ok()) return save_and(status);
      out_.progress.begin("train", at_.global_step, length.total_updates, monotonic_seconds());
    }
    if (p_.group.size() == 1) signal_ = *p_.stop;
    const bool ends = control_.ends_after(at_.global_step), stop = signal_ != 0;
    if (stop || control_.saves_after(at_.global_step)) BASCULE_TRY(save());
    if (stop && !ends) {
      out_.progress.end(monotonic_seconds());
      return {StatusCode::kStopped, {signal_, 0}};
    }
  }
  out_.mlperf.end_block(place_of(at_.global_step));
  // Nothing was left to train: the checkpoint is kept as what it is with the settings of now.
  if (times_.updates == 0 && !run_.resume.changes.empty() && !run_.resume.finished) BASCULE_TRY(save());
  const double ended = monotonic_seconds();
  if (!run_.resume.finished) out_.progress.end(ended);
  measure(ended);
  // A run no longer than its warm-up is measured whole: better than no figure.
  if (times_.counted_steps == 0) {
    times_.counted_seconds = times_.wall_seconds - times_.evaluation_seconds - times_.save_seconds;
    times_.counted_steps = steps_here_;
    times_.counted_samples = times_.samples;
  }
  return ok_status();
}

}  // namespace bascule
