// SPDX-License-Identifier: Apache-2.0
// The training loop: the ring gives a batch, the tape runs, the update runs, the logs get a record. Everything after
// the seal is here or called from here; it allocates nothing and throws nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "src/base/digest.h"
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/checkpoint_writer.h"
#include "src/distributed/agreement.h"
#include "src/distributed/group.h"
#include "src/index/row_digests.h"
#include "src/loader/loader.h"
#include "src/logs/json_log.h"
#include "src/logs/mlflow_run.h"
#include "src/logs/mlperf_log.h"
#include "src/logs/progress.h"
#include "src/logs/step_record.h"
#include "src/logs/tensorboard.h"
#include "src/record/recorded_run.h"
#include "src/record/training_position.h"
#include "src/replay/batch_weights.h"
#include "src/replay/evaluate.h"
#include "src/runtime/threads.h"
#include "src/session/batch_pieces.h"
#include "src/session/shared_by_ranks.h"
#include "src/session/tensor_hashes.h"
#include "src/update/schedule.h"

namespace bascule {

// Measurements of this process by the loop.
struct TrainingTimes {
  double wall_seconds = 0.0;  // of the loop, evaluation and saving included
  double evaluation_seconds = 0.0, save_seconds = 0.0;
  double wire_seconds = 0.0;     // waiting for sums of other machines
  double counted_seconds = 0.0;  // after the warm-up updates, without evaluation and saving
  std::int64_t counted_samples = 0, counted_steps = 0;
  double could_deliver = 0.0;  // samples a second, by the loader, in the counted time
  StepTotals totals;
  std::int64_t samples = 0;  // of all ranks
  BatchCounts rows;          // of this rank, summed over all micro-batches
  std::int64_t micro_batches = 0;
  std::int64_t pieces = 0;  // of those that go through the model in pieces
  std::int64_t updates = 0;
  std::int64_t checkpoints = 0;  // saved
};

// Rows with bad pictures that a checkpoint names, so that they may be mended or taken out.
inline constexpr std::size_t kMostBadRowsKept = 4096;

// The loop's records of steps and evaluations, and where it reports them.
struct TrainingOutputs {
  TensorBoardWriter events;
  JsonLog log;
  MlflowRun tracking;
  MlperfLog mlperf;
  Progress progress = Progress::on_stderr();
  RecordLog<StepRecord> steps;
  RecordLog<EvaluationRecord> evaluations;
  RecordLog<EvaluationRecord> averaged_evaluations;  // of the averaged weights: one for each of `evaluations`
};

class TrainingLoop {
 public:
  // Needed for every step.
  struct Parts {
    Session& session;  // of the run
    Group& group;
    Loader& loader;
    Threads& threads;
    Evaluation* evaluation;                     // null: none
    GatheredRows* gathered;                     // null: the loss is made over each rank's own samples
    const volatile int* stop;                   // a signal's number when one has come
    TensorHashes* hashes = nullptr;             // null: none are kept
    Evaluation* averaged_evaluation = nullptr;  // of the averaged weights; null: none
    const StopRequest* ends_early = nullptr;    // null: there are no such requests
    BatchPieces* pieces = nullptr;              // null: batches go through the model whole
  };
  // Needed for checkpoints; all null where none are written.
  struct Saving {
    ReplacedSamples* replaced;    // null in a run of one process
    CheckpointWriter* writer;     // null in ranks other than 0
    StateExchange* states;        // null where this node has all, and in ranks that are not the first of their node
    WeightsReader* best_weights;  // null where the last weights are kept, and in ranks that are not the first of a node
    Span<std::uint64_t> picture_digests;  // room for those of the training pictures
  };

  // Before the seal.
  TrainingLoop(const RecordedRun& run, const Parts& parts, const Saving& saving, TrainingOutputs* outputs,
               const TrainingPosition& position);

  // The parts of run(), for measuring: begin() opens the stream of training batches, each step() makes one update.
  void begin() noexcept;
  Status step() noexcept;
  // The record of the updates since the last one.
  const StepRecord& interval() const { return interval_; }

  // From the position to the end. kStopped after a signal: the step was finished and a checkpoint saved.
  Status run() noexcept;
  // load_best_model_at_end: from here on the weights are those of the best checkpoint.
  Status load_best() noexcept;
  // Evaluates a split and records it. Does nothing if the last validation was of the same weights.
  Status evaluate(Split split) noexcept;

  // After the evaluations at the end, by all ranks: CheckpointWriter::save_last_state() where no checkpoint that is
  // kept says what the run ends with, because the best alone is, or because the run only evaluated again.
  Status save_last_state() noexcept;
  // The last evaluation of each split in this process: after the run, that of the weights that it ends with. Not
  // sealed.
  std::vector<EvaluationRecord> final_evaluations() const;
  // The same of the averaged weights, which are those of the last update.
  std::vector<EvaluationRecord> averaged_evaluations() const;

  const TrainingPosition& position() const { return at_; }
  const TrainingControl& control() const { return control_; }
  std::int64_t weights_step() const { return weights_step_; }  // the update that made the present weights
  const TrainingTimes& times() const { return times_; }
  // Totals over this run's processes, including this one, up to the last measurement: at a save and at the end.
  RunTotals totals() const noexcept;
  // The split whose batch was requested last: a failure to load is about its rows.
  Split reading() const { return reading_; }

 private:
  Status compute_gradients(std::int64_t* samples) noexcept;
  Status micro_batch(std::int64_t number, std::int64_t batches, std::int64_t* samples) noexcept;
  Status count_batch(const Status& loaded, const Batch* batch, std::int64_t number, std::int64_t batches) noexcept;
  Status begin_batch_weights(const RowsByTerm& first, std::int64_t index, std::int64_t batches) noexcept;
  // Whether the ranks meet in each micro-batch, not only when the update's gradients are summed.
  bool meets_early() const noexcept {
    return counts_early_ || p_.gathered != nullptr || p_.session.training().has_ring();
  }
  void begin_last_gradients() noexcept;
  void add_loss() noexcept;
  void look_at_vectors(const Batch& batch) noexcept;
  bool replay_tapes(const Replay& replay, bool last) noexcept;
  double backward_seconds() const noexcept;
  Status replay(const Batch& batch, bool first, bool last) noexcept;
  Status sum_over_ranks(const Status& computed, std::int64_t* samples) noexcept;
  double average_share(std::int64_t step) const noexcept;
  UpdateSettings update_settings() const noexcept;
  Status update() noexcept;
  Status evaluate_average(const RecordedSplit& recorded) noexcept;
  void report(const EvaluationRecord& record) noexcept;
  Status save() noexcept;
  Status write_or_serve() noexcept;
  // Numbers written at a save; moment borrows the rest.
  static constexpr std::size_t kLoopNumbers = 6;
  struct SavedMoment {
    NamedNumber numbers[kLoopNumbers + kPositionNumbers];
    std::string_view texts[4];
    CheckpointMoment moment;
  };
  void fill(SavedMoment* saved) noexcept;
  Status write_checkpoint() noexcept;
  Status gather_replaced() noexcept;
  Span<const std::int64_t> bad_rows(Span<const ReplacedSample> replaced) noexcept;
  Status save_and(Status status) noexcept;
  void log(bool last) noexcept;
  void measure(double now) noexcept;
  Stream& train_stream() const noexcept { return p_.loader.stream(run_.data.find(Split::kTrain)->stream); }
  TrainingPosition position_to_save(double now) const noexcept;
  double epoch_of(std::int64_t step) const noexcept { return run_.pace.length.epoch_of(step); }
  MlperfLog::Place place_of(std::int64_t step) const noexcept {
    return {step, run_.pace.length.samples_of(step), epoch_of(step)};
  }
  Status catch_up() noexcept;
  Status restart_search() noexcept;
  void keep_if_best() noexcept;
  Status evaluate_and_judge() noexcept;
  bool has_evaluated(std::int64_t step) const noexcept;
  bool repeats(std::int64_t step) const noexcept;
  double digest_of_weights() noexcept;

  const RecordedRun& run_;
  Parts p_;
  Saving saving_;
  TrainingOutputs& out_;
  TrainingPosition at_;
  TrainingControl control_;
  RankAgreement agreement_;
  BatchWeights batch_weights_;
  Digest digest_;
  int signal_ = 0;           // known to all ranks
  bool ends_early_ = false;  // known to all ranks: training is to end with this update
  TrainingTimes times_;
  StepRecord interval_;
  double loss_ = 0.0, norm_ = 0.0, rate_ = 0.0;
  Tensor vectors_;             // of texts that the loss compares; none: it compares no texts
  Status vectors_found_;       // not ok: this rank met one in the update under way that cannot be compared
  bool counts_early_ = false;  // a term is a mean over rows that only the ranks together can count
  double began_ = 0.0;
  // When counting began, the pauses before it, and what the loader had done by then.
  double counted_from_ = 0.0, paused_before_ = 0.0;
  StreamStatistics loaded_before_;
  double interval_began_ = 0.0, interval_paused_ = 0.0;
  double loader_waited_ = 0.0;       // by the loader's workers for the step, up to the last record
  std::int64_t interval_steps_ = 0;  // of the interval under way, in this process
  std::int64_t steps_here_ = 0;      // updates of this process
  std::int64_t samples_here_ = 0;    // of the interval under way, in this process
  Split reading_ = Split::kTrain;
  std::int64_t weights_step_ = 0, evaluated_ = -1;      // updates of the weights of now, and of those validated last
  EvaluationRecord last_validation_, last_test_;        // without steps: none in this process
  EvaluationRecord average_validation_, average_test_;  // the same of the averaged weights
  std::int64_t other_rows_until_ = -1;  // up to this update validations were of other rows, or cut otherwise
  bool saves_first_ = false;            // see plan_data.h
  EvaluationFigure mlperf_figure_;      // what the MLPerf log has of each evaluation
  // For a save, in the rank that writes.
  std::vector<std::int64_t> replaced_rows_;
  std::vector<BadRow> bad_rows_;
};

}  // namespace bascule
