// SPDX-License-Identifier: Apache-2.0
// The fifth part of the seal: the records of steps and evaluations in the arena, those of a checkpoint among them, with
// the position that they lead to; and, at the end of the start, the files and the status that they are reported to:
//
//   SealedRecords records(run, arena);       // once memory has been touched
//   ...                                      // whatever may still refuse the run
//   records.open_files(run, group);          // cuts off what is computed again
//
// Before the seal; throws Error.
#pragma once

#include <string>

#include "src/distributed/group.h"
#include "src/logs/run_status.h"
#include "src/record/recorded_run.h"
#include "src/record/training_position.h"
#include "src/replay/loop.h"
#include "src/runtime/arena.h"

namespace bascule {

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
