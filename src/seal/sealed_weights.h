// SPDX-License-Identifier: Apache-2.0
// The fourth part of the seal: weights are put into memory, read from the model folder, a checkpoint or the finished
// model, or initialised; with them the optimizer's states and the average of the weights, and those tensors of the
// model's class that take no part in training and are only written again. Done by the first rank of every node: by
// rank 0 before all others, so that what is wrong with the files is said once. Before the seal; throws Error.
#pragma once

#include <string>
#include <vector>

#include "src/checkpoint/safetensors.h"
#include "src/checkpoint/tensor_source.h"
#include "src/distributed/group.h"
#include "src/record/recorded_run.h"
#include "src/runtime/start_work.h"
#include "src/runtime/threads.h"
#include "src/session/parameter_values.h"

namespace bascule {

// The average of the weights in the arena, once the session is sealed; null: none is kept.
float* averages_of(const RecordedRun& run);

class SealedWeights {
 public:
  // By all ranks of the group together, with a sealed session. work: has what is to be done at the same time, the
  // touching of memory; all of it has run when this returns. say is told where weights come from, by rank 0. run
  // outlives this.
  SealedWeights(const RecordedRun& run, Threads& threads, Group& group, void (*say)(const std::string& line),
                StartWork* work);
  SealedWeights(const SealedWeights&) = delete;
  SealedWeights& operator=(const SealedWeights&) = delete;

  // The model folder's weights; empty where none of them are read, and in ranks that are not the first of a node.
  const TensorSource& source() const { return source_; }
  // The tensors that take no part, to be written as they were, or as initialised; they refer to this. In ranks that are
  // the first of a node.
  std::vector<TensorToWrite> unused_to_write() const;

 private:
  void fill(Threads& threads, int node, void (*say)(const std::string& line), StartWork* work);
  void read_model_folder(Threads& threads, void (*say)(const std::string& line), StartWork* work);
  void make_unused();

  const RecordedRun& run_;
  TensorSource source_;
  std::vector<ParameterPiece> unused_;
  std::vector<std::vector<float>> unused_values_;  // initial ones, where the source has none
};

// The machines of a run see the same settings, model, data and checkpoints, or the run is refused: called by every
// rank, before the seal. An Error kSettings, said by rank 0.

void check_same_files(const RecordedRun& run, Group& group);

// After they were read, or made, on every machine. resumes: they are of a checkpoint.
void check_same_weights(const SettingsOrigin& origin, Group& group, const ParameterMemory& memory, bool resumes);

}  // namespace bascule
