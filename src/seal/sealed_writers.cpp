// SPDX-License-Identifier: Apache-2.0
#include "src/seal/sealed_writers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "src/checkpoint/checkpoint.h"
#include "src/record/resume_check.h"
#include "src/replay/loop.h"
#include "src/seal/disk_demand.h"
#include "src/seal/model_folder.h"
#include "src/session/parameter_values.h"

namespace bascule {
namespace {

// The digests of what is read from the model folder, the weights' among them: where the start has not read it yet,
// it is taken here.
std::vector<SettingValue> model_files(const RecordedRun& run, const SealedWeights& weights) {
  std::vector<SettingValue> files = run.resume.model_files;
  const auto is_weights = [](const SettingValue& file) { return file.key == kModelWeights; };
  if (!run.settings.model.from_scratch && std::none_of(files.begin(), files.end(), is_weights))
    files.push_back({kModelWeights, weights_digest(weights.source())});
  return files;
}

void add_files(ModelFiles* files, const HfFolderPlan* plan, const std::string& folder) {
  if (plan == nullptr) return;
  for (const PlannedFile& file : plan->files())
    files->finished.push_back({file.bytes, file_bytes_at(folder + "/" + file.name)});
}

}  // namespace

ModelFiles files_to_hold(const CheckpointWriter* checkpoints, const HfFolderPlan* final_model,
                         const HfFolderPlan* averaged, const std::string& output_dir) {
  ModelFiles files;
  if (checkpoints != nullptr) files.checkpoint_bytes = checkpoints->checkpoint_bytes();
  add_files(&files, final_model, output_dir);
  add_files(&files, averaged, output_dir + "/" + kAveragedFolder);
  return files;
}

SealedWriters::SealedWriters(const RecordedRun& run, const SealedWeights& weights, const SealedEvaluation& evaluation,
                             Group& group) {
  const bool trains = run.graphs.trains();
  if (trains && run.session.training().optimizer_states().are_shared_out && group.is_leader())
    state_exchange_ = std::make_unique<StateExchange>(group, run.session.training().optimizer_states());
  if (trains && group.is_first()) {
    const float* const trained = run.session.parameter_memory().trained;
    final_model_ = std::make_unique<HfFolderPlan>(model_folder(run, weights, trained));
    if (const float* const averages = averages_of(run))
      averaged_ = std::make_unique<HfFolderPlan>(model_folder(run, weights, averages));
    checkpoints_ = std::make_unique<CheckpointWriter>(contents(run, weights, evaluation.judges_average()));
  }
  const std::string& output_dir = run.settings.run.output_dir.resolved;
  if (group.is_first()) {
    ModelFiles files = files_to_hold(checkpoints_.get(), final_model_.get(), averaged_.get(), output_dir);
    check_disk_space(output_dir, disk_demand(run, std::move(files)));
  }
  if (trains && run.settings.training.load_best_model_at_end && group.is_leader()) make_best_reader(run, weights);
}

CheckpointContents SealedWriters::contents(const RecordedRun& run, const SealedWeights& weights, bool judges_average) {
  const Settings& settings = run.settings;
  CheckpointContents contents;
  contents.output_dir = settings.run.output_dir.resolved;
  contents.save_total_limit = settings.training.save_total_limit;
  contents.keeps_later = settings.run.resume == Resume::kOlder;
  contents.model = model_folder(run, weights, run.session.parameter_memory().trained);
  contents.optimizer = optimizer_to_write(run);
  if (run.resume.point) contents.resumed_from = run.resume.point->resumed_from;
  contents.settings_digest = settings_digest(settings);
  contents.settings = number_values(settings);
  contents.other_settings = other_values(settings);
  contents.history = run.resume.history;
  const std::vector<SettingValue> files = model_files(run, weights);
  contents.data = data_digests(run.data);
  contents.data.insert(contents.data.end(), files.begin(), files.end());
  const RecordedSplit& train = *run.data.find(Split::kTrain);
  const Manifest& rows = *train.manifest;
  // The samples of a corpus are no rows that anybody mends: it is the same text or another.
  if (!train.corpus) contents.rows = {rows.rows(), row_blocks(rows), rows.taken_out(), {}};
  contents.max_bad_rows = static_cast<std::int64_t>(kMostBadRowsKept);
  contents.text_files = {kStepRecords, kEvaluationRecords, kPictureDigestsFile};
  if (judges_average) contents.text_files.push_back(kAveragedRecords);
  return contents;
}

std::vector<TensorToWrite> SealedWriters::optimizer_to_write(const RecordedRun& run) {
  const ParameterMemory memory = run.session.parameter_memory();
  std::vector<TensorToWrite> all =
      states_to_write(run.session.training().optimizer_states(), memory, state_exchange_.get(), &parts_);
  if (const float* const averages = averages_of(run)) {
    for (TensorToWrite& tensor : tensors_to_write(*memory.set, *memory.layout, averages, nullptr, ema_name("")))
      all.push_back(std::move(tensor));
  }
  return all;
}

void SealedWriters::make_best_reader(const RecordedRun& run, const SealedWeights& weights) {
  const Span<float> trained(run.session.parameter_memory().trained,
                            static_cast<std::size_t>(run.session.layout().trained_elements));
  std::optional<HfFolderPlan> files;
  if (!final_model_) files.emplace(model_folder(run, weights, trained.data()));
  best_weights_ = std::make_unique<WeightsReader>(final_model_ ? *final_model_ : *files, trained);
}

}  // namespace bascule
