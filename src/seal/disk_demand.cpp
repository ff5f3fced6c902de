// SPDX-License-Identifier: Apache-2.0
#include "src/seal/disk_demand.h"

#include <string>

#include "src/checkpoint/checkpoint_names.h"
#include "src/record/plan_control.h"

namespace bascule {

DiskDemand checkpoints_to_write(const RecordedRun& run, std::int64_t checkpoint_bytes) {
  const TrainingSettings& training = run.settings.training;
  const ControlSettings& control = run.pace.control;
  const std::int64_t total = run.pace.length.total_updates;
  const std::int64_t done = run.resume.point ? run.resume.point->global_step : 0;
  const std::int64_t every = control.save == Interval::kSteps   ? control.save_steps
                             : control.save == Interval::kEpoch ? control.updates_per_epoch
                                                                : total;
  DiskDemand demand;
  if (done < total && !run.resume.is_over) demand.saves = total / every - done / every + (total % every == 0 ? 0 : 1);
  if (saves_first(run.settings.run.output_dir.resolved, run.resume)) ++demand.saves;
  demand.checkpoint_bytes = checkpoint_bytes;
  demand.save_total_limit = training.save_total_limit;
  if (control.keeps_best && demand.save_total_limit == 1) demand.save_total_limit = 2;  // the newest, and the best
  demand.present_checkpoints = checkpoint_bytes_in(run.settings.run.output_dir.resolved);
  return demand;
}

DiskDemand demand_of_tensors(const RecordedRun& run) {
  const ParameterSet& parameters = run.session.parameters();
  const bool averages = run.settings.training.ema_decay > 0.0;
  std::int64_t weights = 0, state = 0;
  for (int p = 0; p < parameters.size(); ++p) {
    weights += parameters[p].elements();
    if (averages && parameters[p].trained) state += parameters[p].elements();
  }
  for (const OptimizerState& one : optimizer_kind(run.settings.training.optimizer).states) {
    for (const StateTensor& tensor : state_tensors(one, parameters, run.session.layout()))
      state += element_count(tensor.shape);
  }
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(float));
  const std::string& folder = run.settings.run.output_dir.resolved;
  DiskDemand demand = checkpoints_to_write(run, (weights + state) * kBytes);
  demand.final_files.push_back({weights * kBytes, file_bytes_at(folder + "/model.safetensors")});
  if (averages)
    demand.final_files.push_back(
        {weights * kBytes, file_bytes_at(folder + "/" + kAveragedFolder + "/model.safetensors")});
  return demand;
}

void check_disk_for_tensors(const RecordedRun& run) {
  if (run.graphs.trains()) check_disk_space(run.settings.run.output_dir.resolved, demand_of_tensors(run));
}

}  // namespace bascule
