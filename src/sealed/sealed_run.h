// SPDX-License-Identifier: Apache-2.0
// The third phase: arenas are mapped and touched, weights loaded or made, tapes and threads and loader started, files
// opened. Everything that replay uses exists when the constructor returns. Before the seal; throws Error.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/checkpoint_writer.h"
#include "src/checkpoint/hf_write.h"
#include "src/records/run_status.h"
#include "src/run/recorded_run.h"
#include "src/sealed/start_times.h"
#include "src/session/state_values.h"
#include "src/train/loop.h"

namespace bascule {

class SealedRun {
 public:
  // By all ranks of the group together; what those of a node share is filled by its first. `say` is told one line of
  // facts at a time ("weights: ..."), by rank 0. times: is told its phases.
  SealedRun(RecordedRun& run, Isa isa, const volatile int* stop, void (*say)(const std::string& line), Group& group,
            StartTimes* times);
  ~SealedRun();  // nothing works on the arenas any more before they go
  SealedRun(const SealedRun&) = delete;
  SealedRun& operator=(const SealedRun&) = delete;

  RecordedRun& run() { return run_; }
  TrainingLoop& loop() { return *loop_; }
  Group& group() { return group_; }
  Loader& loader() { return *loader_; }
  ReplacedSamples* replaced() { return replaced_.get(); }                 // null in a run of one process
  CheckpointWriter* writer() { return writer_.get(); }                    // rank 0's; null where nothing is trained
  const HfFolderPlan* final_model() const { return final_model_.get(); }  // rank 0's; null: nothing is trained
  const HfFolderPlan* averaged_model() const { return averaged_model_.get(); }  // null: no average is kept
  const TensorSource& weights_source() const { return source_; }  // empty: no weights of the model folder are read
  // By id; rank 0's, where predictions name tokens.
  const std::vector<std::string>& token_texts() const { return token_texts_; }
  const TrainingOutputs& outputs() const { return out_; }
  Isa isa() const { return isa_; }
  RunStatus& status() { return status_; }

 private:
  void meet(const char* what);
  StartWork::Figures fill_memory(const std::optional<ResumePoint>& point, void (*say)(const std::string&));
  void say_small_pages(void (*say)(const std::string&)) const;
  void load_weights(const std::optional<ResumePoint>& point, void (*say)(const std::string&), StartWork* work);
  void load_finished(const FinishedWeights& finished, StartWork* work);
  float* averages() const;  // of the weights; null: none are kept
  void begin_average();
  void make_unused_tensors();
  void resume_records(const ResumePoint& point);
  void resume_averaged_records(const ResumePoint& point);
  void resume_picture_digests(const ResumePoint& point);
  HfFolderContents folder_contents(const float* trained) const;
  std::vector<TensorToWrite> optimizer_to_write();
  void make_writers();
  void check_disk() const;
  void open_logs();

  RecordedRun& run_;
  Isa isa_;
  Group& group_;
  SharedMemory shared_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Threads> threads_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<CountedProgress> loader_progress_;  // goes before what it counts
  std::unique_ptr<BatchRunner> runner_, averaged_runner_;
  std::unique_ptr<Evaluation> evaluation_, averaged_evaluation_;
  std::unique_ptr<GatheredRows> gathered_;
  std::unique_ptr<ReplacedSamples> replaced_;
  std::unique_ptr<TensorHashes> hashes_;
  TensorSource source_;                            // the model folder's weights, for what only passes through
  std::vector<ParameterPiece> unused_;             // tensors of the class that take no part
  std::vector<std::vector<float>> unused_values_;  // fresh ones, where the source has none
  std::unique_ptr<HfFolderPlan> final_model_, averaged_model_;
  std::vector<std::string> token_texts_;
  std::unique_ptr<StateExchange> state_exchange_;
  std::deque<StateExchange::Part> parts_;  // the tensors that writer_ reads from it
  std::unique_ptr<CheckpointWriter> writer_;
  std::unique_ptr<WeightsReader> best_weights_;
  RunStatus status_;  // rank 0's
  TrainingOutputs out_;
  TrainingPosition position_;
  std::unique_ptr<TrainingLoop> loop_;
};

// Where TensorBoard events of a run lie.
std::string events_folder(const Settings& settings);

}  // namespace bascule
