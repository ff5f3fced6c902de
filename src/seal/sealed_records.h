// SPDX-License-Identifier: Apache-2.0
// The fifth and sixth part of the seal: records, logs and tracking; the judge and the evaluations.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/distributed/group.h"
#include "src/logs/mlflow_run.h"
#include "src/logs/progress.h"
#include "src/record/recorded_run.h"
#include "src/record/training_position.h"
#include "src/replay/evaluate.h"
#include "src/replay/loop.h"
#include "src/runtime/arena.h"
#include "src/settings/settings.h"

namespace bascule {

// report.tracking: the run in a store of MLflow. Before the seal.

// report.tracking_dir as an absolute path, or the folder beside output_dir that is its default.
std::string tracking_store(const Settings& settings);

// By rank 0, before anything of the run changes: makes the store's folder. Throws Error{kDisk} where the run could not
// write there.
void check_tracking_store(const Settings& settings);

// By rank 0, of a run that is finished already: writes it whole unless the store has it, as where the settings ask for
// it only now. Says whether it wrote. Throws Error{kDisk}.
bool track_finished(const Settings& settings);

// By rank 0, once log.jsonl holds what counts. Writes nothing unless the settings ask for it. Throws Error{kDisk}.
MlflowRun open_tracking(const Settings& settings);

// The fifth part of the seal: the records of steps and evaluations in the arena, those of a checkpoint among them, with
// the position that they lead to; and, at the end of the start, the files and the status that they are reported to:
//
//   SealedRecords records(run, arena);       // once memory has been touched
//   ...                                      // whatever may still refuse the run
//   records.open_files(run, group);          // cuts off what is computed again
//
// Before the seal; throws Error.

class SealedRecords {
 public:
  // arena outlives this. Throws Error kData where the checkpoint's records are not those of this run.
  SealedRecords(const RecordedRun& run, const Arena& arena);
  SealedRecords(const SealedRecords&) = delete;
  SealedRecords& operator=(const SealedRecords&) = delete;

  // Rank 0 opens log, events, tracking and status, all others report nothing. `say` is told what was damaged in those
  // that are there. Throws Error kDisk.
  void open_files(const RecordedRun& run, const Group& group, void (*say)(const std::string& line));

  const TrainingPosition& position() const { return position_; }  // where the loop begins
  TrainingOutputs& outputs() { return outputs_; }
  const TrainingOutputs& outputs() const { return outputs_; }
  RunStatus& status() { return status_; }  // rank 0's

 private:
  void resume(const RecordedRun& run, const ResumePoint& point);
  void resume_averaged(const ResumePoint& point);
  void open_logs(const RecordedRun& run, void (*say)(const std::string& line));

  RunStatus status_;  // outputs_.progress tells it
  TrainingOutputs outputs_;
  TrainingPosition position_;
};

// Where TensorBoard events of a run lie.
std::string events_folder(const RunSettings& run);

// The sixth part of the seal: the judge in its memory, and the evaluations of the weights and of their average. Before
// the seal; throws Error kData where the tokenizer's files are damaged.

class SealedEvaluation {
 public:
  // With a sealed session. Seals run.graphs.judge, and what generates texts. run and group outlive this.
  SealedEvaluation(RecordedRun& run, const Arena& arena, Group& group);
  SealedEvaluation(const SealedEvaluation&) = delete;
  SealedEvaluation& operator=(const SealedEvaluation&) = delete;

  Evaluation* of_weights() { return of_weights_ ? &*of_weights_ : nullptr; }  // null: nothing is evaluated
  Evaluation* of_average() { return of_average_ ? &*of_average_ : nullptr; }  // null: no average is
  bool judges_average() const { return of_average_.has_value(); }
  // By id; rank 0's, where predictions name tokens.
  const std::vector<std::string>& token_texts() const { return token_texts_; }

 private:
  void seal_texts(RecordedRun& run, const Arena& arena);

  std::unique_ptr<BatchRunner> runner_, averaged_runner_;
  std::optional<Evaluation> of_weights_, of_average_;
  std::vector<std::string> token_texts_;
};

}  // namespace bascule
