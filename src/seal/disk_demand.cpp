// SPDX-License-Identifier: Apache-2.0
#include "src/seal/disk_demand.h"

#include <sys/stat.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/checkpoint/checkpoint.h"
#include "src/machine/machine.h"
#include "src/record/plan_data.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kListedBytes = 160;                    // a line of the list of pictures: about
constexpr std::int64_t kReportBytes = std::int64_t{2} << 20;  // page with pictures, result files, events: about

// The bytes that become free when a folder is removed with all it holds.
std::int64_t bytes_below(const fs::path& folder) {
  std::int64_t bytes = 0;
  std::error_code failed;
  for (fs::recursive_directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
    bytes += file_bytes_at(at->path().string());
  return bytes;
}

// The checkpoints that are still to be written, of so many bytes each.
DiskDemand checkpoints_to_write(const RecordedRun& run, std::int64_t checkpoint_bytes) {
  const TrainingSettings& training = run.settings.training;
  const ControlSettings& control = run.pace.control;
  const std::int64_t total = run.pace.length.total_updates;
  const std::int64_t done = run.resume.point ? run.resume.point->global_step : 0;
  const std::int64_t every = control.save == Interval::kSteps   ? control.save_steps
                             : control.save == Interval::kEpoch ? control.updates_per_epoch
                                                                : total;
  DiskDemand demand;
  if (done < total && !run.resume.is_over && control.save == Interval::kEpoch && !control.epoch_ends.empty()) {
    demand.saves = std::count_if(control.epoch_ends.begin(), control.epoch_ends.end(),
                                 [&](std::int64_t end) { return end > done && end < total; }) +
                   1;
  } else if (done < total && !run.resume.is_over) {
    demand.saves = total / every - done / every + (total % every == 0 ? 0 : 1);
  }
  if (saves_first(run.settings.run.output_dir.resolved, run.resume)) ++demand.saves;
  demand.checkpoint_bytes = checkpoint_bytes;
  demand.save_total_limit = training.save_total_limit;
  if (control.keeps_best && demand.save_total_limit == 1) demand.save_total_limit = 2;  // the newest, and the best
  demand.present_checkpoints = checkpoint_bytes_in(run.settings.run.output_dir.resolved);
  return demand;
}

// The most that the texts of a checkpoint's records and digests take.
std::int64_t record_bytes(const RecordedRun& run) {
  auto bytes = static_cast<std::int64_t>(run.plan[kRecordMemory].bytes);
  if (picture_digest_count(run.data.loader) > 0)
    bytes += run.data.find(Split::kTrain)->manifest->pictures() * static_cast<std::int64_t>(sizeof(PictureDigest));
  return bytes;
}

}  // namespace

DiskNeed disk_need(const DiskDemand& demand) {
  DiskNeed need;
  std::deque<std::int64_t> there(demand.present_checkpoints.begin(), demand.present_checkpoints.end());
  double held = 0.0;
  const auto hold = [&](double bytes) {
    held += bytes;
    need.bytes = std::max(need.bytes, held);
  };
  std::int64_t saves = demand.saves;
  if (demand.save_total_limit == 0) {
    hold(static_cast<double>(saves) * static_cast<double>(demand.checkpoint_bytes));
    need.checkpoints = static_cast<std::int64_t>(there.size()) + saves;
    saves = 0;
  }
  // After so many nothing but new ones is there, and each takes the place of one.
  saves = std::min(saves, static_cast<std::int64_t>(there.size()) + demand.save_total_limit + 1);
  for (; saves > 0; --saves) {
    hold(static_cast<double>(demand.checkpoint_bytes));
    there.push_back(demand.checkpoint_bytes);
    need.checkpoints = std::max(need.checkpoints, static_cast<std::int64_t>(there.size()));
    for (; static_cast<std::int64_t>(there.size()) > demand.save_total_limit; there.pop_front())
      held -= static_cast<double>(there.front());
  }
  for (const DiskFile& file : demand.final_files) {
    hold(static_cast<double>(file.bytes));
    held -= static_cast<double>(file.replaced_bytes);
  }
  return need;
}

std::vector<std::int64_t> checkpoint_bytes_in(const std::string& output_dir) {
  std::map<std::int64_t, std::int64_t> bytes_by_step;
  for (const std::string& name : names_in(output_dir)) {
    if (const std::optional<std::int64_t> step = checkpoint_step(name))
      bytes_by_step[*step] = bytes_below(fs::path(output_dir) / name);
  }
  std::vector<std::int64_t> bytes;
  bytes.reserve(bytes_by_step.size());
  for (const auto& one : bytes_by_step) bytes.push_back(one.second);
  return bytes;
}

std::int64_t file_bytes_at(const std::string& path) {
  struct stat facts = {};
  return ::lstat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) ? facts.st_blocks * 512 : 0;
}

void check_disk_space(const std::string& output_dir, const DiskDemand& demand) {
  const Fact available = read_disk(output_dir).free_bytes;
  if (!available) return;
  const double free = static_cast<double>(*available);
  const DiskNeed need = disk_need(demand);
  if (need.bytes <= free) return;
  const auto readable = [](double bytes) {
    return std::string(readable_bytes(static_cast<std::uint64_t>(std::min(bytes, 1e18))).c_str());
  };
  std::string what = demand.has_model ? "the finished model" : "the results";
  if (need.checkpoints > 0)
    what = count_of(need.checkpoints, "checkpoint") + " of " + readable(static_cast<double>(demand.checkpoint_bytes)) +
           " at a time plus " + what + ",";
  const bool is_one = need.checkpoints == 0 && demand.has_model;
  throw Error(ErrorKind::kDisk, output_dir,
              what + (is_one ? " needs " : " need ") + readable(need.bytes) + " of disk space, " + readable(free) +
                  " are available",
              need.checkpoints > 2 ? "free space, or lower training.save_total_limit"
                                   : "free space, or choose another training.output_dir");
}

ModelFiles tensors_to_hold(const RecordedRun& run) {
  ModelFiles files;
  if (!run.graphs.trains()) return files;
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
  files.checkpoint_bytes = (weights + state) * kBytes;
  files.finished.push_back({weights * kBytes, file_bytes_at(folder + "/model.safetensors")});
  if (averages)
    files.finished.push_back({weights * kBytes, file_bytes_at(folder + "/" + kAveragedFolder + "/model.safetensors")});
  return files;
}

DiskDemand disk_demand(const RecordedRun& run, ModelFiles files) {
  const std::string& folder = run.settings.run.output_dir.resolved;
  DiskDemand demand;
  if (run.graphs.trains()) demand = checkpoints_to_write(run, files.checkpoint_bytes + record_bytes(run));
  demand.has_model = !files.finished.empty();
  demand.final_files = std::move(files.finished);
  const RecordedSplit* const last = run.data.last_judged();
  if (last != nullptr && *run.graphs.judge->file() != '\0') {
    demand.final_files.push_back(
        {run.graphs.judge->file_bytes(static_cast<std::int64_t>(last->manifest->resident_bytes())),
         file_bytes_at(folder + "/" + run.graphs.judge->file())});
  }
  demand.final_files.push_back({kReportBytes, 0});
  demand.final_files.push_back({static_cast<std::int64_t>(picture_digest_count(run.data.loader)) * kListedBytes, 0});
  return demand;
}

void check_disk_for_tensors(const RecordedRun& run) {
  check_disk_space(run.settings.run.output_dir.resolved, disk_demand(run, tensors_to_hold(run)));
}

}  // namespace bascule
