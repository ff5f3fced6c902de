// SPDX-License-Identifier: Apache-2.0
// The third phase: arenas are mapped and touched, weights loaded or made, tapes and threads and loader started, files
// opened. Everything that replay uses exists when the constructor returns. It is made of parts that seal themselves,
// each in a file of its own and each built from those before it:
//
//   SealedMemory      the arena, and what the ranks of a node share
//   SealedLoader      the loader with its workers
//   SealedTapes       the compute threads and the session's tapes
//   SealedWeights     memory is touched, and has weights
//   SealedRecords     records of steps and evaluations, those of a checkpoint among them
//   SealedEvaluation  the judge, and the evaluations
//   SealedWriters     the finished model and checkpoints, for which the disk has room
//
// Before the seal; throws Error.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "src/checkpoint/checkpoint_writer.h"
#include "src/checkpoint/hf_write.h"
#include "src/logs/progress.h"
#include "src/record/recorded_run.h"
#include "src/replay/loop.h"
#include "src/seal/sealed_loader.h"
#include "src/seal/sealed_records.h"
#include "src/seal/sealed_weights.h"
#include "src/seal/sealed_writers.h"
#include "src/seal/start_times.h"
#include "src/session/sealed_memory.h"
#include "src/session/shared_by_ranks.h"
#include "src/session/tensor_hashes.h"

namespace bascule {

class SealedRun {
 public:
  // Called by all ranks of the group together; the first rank of a node fills the memory that its ranks share. say: is
  // given one line of facts at a time ("weights: ..."), by rank 0. times: is given the phases.
  SealedRun(RecordedRun& run, Isa isa, const volatile int* stop, void (*say)(const std::string& line), Group& group,
            StartTimes* times);
  // Called by all ranks, when all are sealed: rank 0 opens the run's logs and cuts off records of updates that will be
  // computed again. No file of an earlier start changes before this. Throws Error{kDisk, kData}.
  void open_files(void (*say)(const std::string& line), StartTimes* times);
  ~SealedRun();  // nothing works on the arenas any more before they go
  SealedRun(const SealedRun&) = delete;
  SealedRun& operator=(const SealedRun&) = delete;

  RecordedRun& run() { return run_; }
  TrainingLoop& loop() { return *loop_; }
  Group& group() { return group_; }
  Loader& loader() { return loader_->loader(); }
  ReplacedSamples* replaced() { return replaced_.get(); }         // null in a run of one process
  const TensorHashes* hashes() const { return hashes_.get(); }    // null: the run keeps none
  CheckpointWriter* writer() { return writers_->checkpoints(); }  // rank 0's; null where nothing is trained
  const HfFolderPlan* final_model() const { return writers_->final_model(); }  // rank 0's; null: nothing is trained
  const HfFolderPlan* averaged_model() const { return writers_->averaged_model(); }  // null: no average is kept
  // Empty: no weights of the model folder are read.
  const TensorSource& weights_source() const { return weights_->source(); }
  // By id; rank 0's, where predictions name tokens.
  const std::vector<std::string>& token_texts() const { return evaluation_->token_texts(); }
  const TrainingOutputs& outputs() const { return records_->outputs(); }
  Isa isa() const { return isa_; }
  RunStatus& status() { return records_->status(); }
  MlflowRun& tracking() { return records_->outputs().tracking; }
  MlperfLog& mlperf() { return records_->outputs().mlperf; }  // writes nothing unless rank 0's caller puts one there

 private:
  void share_samples();
  void make_hashes();
  void open_hashes(void (*say)(const std::string& line));
  void make_loop(const volatile int* stop);

  RecordedRun& run_;
  Isa isa_;
  Group& group_;
  // All are there once this is sealed. In the order in which they are made: each may refer to those before it.
  std::optional<SealedMemory> memory_;
  std::optional<SealedLoader> loader_;
  std::optional<SealedTapes> tapes_;
  std::optional<SealedWeights> weights_;
  std::optional<SealedRecords> records_;
  std::optional<SealedEvaluation> evaluation_;
  std::optional<SealedWriters> writers_;
  std::unique_ptr<ReplacedSamples> replaced_;
  std::unique_ptr<GatheredRows> gathered_;
  std::unique_ptr<TensorHashes> hashes_;
  StopRequest stop_request_;
  std::optional<TrainingLoop> loop_;
};

}  // namespace bascule
