// SPDX-License-Identifier: Apache-2.0
// The seventh part of the seal: the files that a run writes weights to.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/checkpoint_writer.h"
#include "src/checkpoint/hf_write.h"
#include "src/distributed/group.h"
#include "src/record/recorded_run.h"
#include "src/seal/disk_demand.h"
#include "src/seal/sealed_records.h"
#include "src/seal/sealed_weights.h"

namespace bascule {

// The seventh part of the seal: what a run that trains writes weights with, and reads the best ones back with. The
// folder of the finished model and that of its average are planned, the writer of checkpoints has its memory, and the
// disk has room for all of it: hours of training are not to end at a full disk that could be foreseen. Nothing is
// written here. Before the seal; throws Error, kDisk where there is no room.

// The files themselves, of these writers, each of which may be null. Before the seal.
ModelFiles files_to_hold(const CheckpointWriter* checkpoints, const HfFolderPlan* final_model,
                         const HfFolderPlan* averaged, const std::string& output_dir);

class SealedWriters {
 public:
  // With a sealed session. run, weights and group outlive this.
  SealedWriters(const RecordedRun& run, const SealedWeights& weights, const SealedEvaluation& evaluation, Group& group);
  SealedWriters(const SealedWriters&) = delete;
  SealedWriters& operator=(const SealedWriters&) = delete;

  // All null where nothing is trained.
  CheckpointWriter* checkpoints() { return checkpoints_.get(); }          // rank 0's
  const HfFolderPlan* final_model() const { return final_model_.get(); }  // rank 0's
  const HfFolderPlan* averaged_model() const { return averaged_.get(); }  // rank 0's; null: no average is kept
  // Null where this node has all states, and in ranks that are not the first of their node.
  StateExchange* state_exchange() { return state_exchange_.get(); }
  // Null where the last weights are kept, and in ranks that are not the first of their node.
  WeightsReader* best_weights() { return best_weights_.get(); }

 private:
  CheckpointContents contents(const RecordedRun& run, const SealedWeights& weights, bool judges_average);
  std::vector<TensorToWrite> optimizer_to_write(const RecordedRun& run);
  void make_best_reader(const RecordedRun& run, const SealedWeights& weights);

  std::unique_ptr<StateExchange> state_exchange_;
  std::deque<StateExchange::Part> parts_;  // the tensors that checkpoints_ reads from it
  std::unique_ptr<HfFolderPlan> final_model_, averaged_;
  std::unique_ptr<CheckpointWriter> checkpoints_;
  std::unique_ptr<WeightsReader> best_weights_;
};

// The files of checkpoints and of the folder that a run writes.

// The names of the files that a checkpoint has beside tensors and state, in the order in which the loop writes them:
// written by the writer of checkpoints, read back by those parts of the seal whose contents they are.

inline constexpr char kStepRecords[] = "step_records.bin";
inline constexpr char kEvaluationRecords[] = "evaluation_records.bin";
inline constexpr char kPictureDigestsFile[] = "picture_digests.bin";
inline constexpr char kAveragedRecords[] = "averaged_evaluation_records.bin";  // where an average is evaluated

// The contents of the Hugging Face folder that a run writes: its configuration, the files of its sources, and its
// tensors. Before the seal; throws Error.

// Without its tensors.
HfFolderContents files_beside_weights(const RecordedRun& run);
// trained: the weights in the arena, or their average. weights: outlives what is made of the contents.
HfFolderContents model_folder(const RecordedRun& run, const SealedWeights& weights, const float* trained);

// "a, b/ and 3 more": files of the folder that the run begins from that the finished one will lack, as nothing here
// knows what they say of the model; "" for none.
std::string files_left_behind(const RecordedRun& run);

}  // namespace bascule
