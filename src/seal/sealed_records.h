// SPDX-License-Identifier: Apache-2.0
// The fifth part of the seal: records, logs and tracking.
#pragma once

#include <string>

#include "src/distributed/group.h"
#include "src/logs/mlflow_run.h"
#include "src/logs/progress.h"
#include "src/record/recorded_run.h"
#include "src/record/training_position.h"
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

}  // namespace bascule
