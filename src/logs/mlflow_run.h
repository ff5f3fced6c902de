// SPDX-License-Identifier: Apache-2.0
// A run in a store of MLflow that consists of plain files, as its FileStore has them. Runs that share a store may write
// at the same time: each has a folder of its own.
//
//   STORE/0/meta.yaml             the experiment "Default"; made where it is missing
//   STORE/0/ID/meta.yaml          the run: name, state, times
//   STORE/0/ID/params/KEY         a setting
//   STORE/0/ID/tags/KEY           a tag; one of MLflow's that is there already, perhaps changed by a user, is kept
//   STORE/0/ID/metrics/KEY        lines "milliseconds value step": the figures of log.jsonl, with its times
//   STORE/0/ID/artifacts/NAME     hard links to results in the output folder, without weights
//
// log.jsonl is the record and the metrics are a copy: a run that begins or resumes makes them from it, so what a killed
// run left too much, or half, is gone. open() belongs before the seal, end() after the last step; the rest is sealed.
// A metric that is empty or ends in half a line would keep MLflow from showing any run of the store, so what cannot be
// written whole is taken back.
//
//   MlflowRun run = MlflowRun::open({store, "demo", "/runs/demo", parameters, tags});   // after cut_log_after()
//   sealed: run.step(record, unix_seconds);
//   run.end(MlflowState::kFinished, unix_seconds);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/descriptor.h"
#include "src/base/readable.h"
#include "src/base/status.h"
#include "src/logs/step_record.h"

namespace bascule {

// As MLflow numbers them.
enum class MlflowState { kRunning = 1, kFinished = 3, kFailed = 4, kKilled = 5 };

// The tag that says which folder a run was last written from.
inline constexpr char kMlflowFolderTag[] = "bascule.output_dir";

struct MlflowPlace {
  std::string store;                        // absolute
  std::string name;                         // of the run, for people
  std::string output_dir;                   // absolute; keeps the run's id, in a hidden file
  std::vector<NamedText> parameters, tags;  // with kMlflowFolderTag
};

class MlflowRun {
 public:
  MlflowRun() = default;  // writes nothing, every call succeeds
  // A run that was not ended has failed.
  ~MlflowRun();
  MlflowRun(MlflowRun&&) = default;
  MlflowRun& operator=(MlflowRun&&) = default;

  // Throws Error{kDisk}.
  static MlflowRun open(MlflowPlace place, double unix_seconds);
  // A run that has finished: written whole, with the times of its log, unless the store has it as finished. Says
  // whether it wrote. Throws Error{kDisk}.
  static bool write_finished(MlflowPlace place);
  bool is_open() const noexcept { return metrics_.is_open(); }

  // unix_seconds: as in log.jsonl.
  Status step(const StepRecord& record, double unix_seconds) noexcept;
  Status evaluation(const EvaluationRecord& record, Metrics metrics, double unix_seconds) noexcept;

  // Once: says how the run ended; of a finished one links its results. Throws Error{kDisk}.
  void end(MlflowState state, double unix_seconds);

 private:
  std::string folder() const { return place_.store + "/0/" + id_; }
  std::string name() const;
  void write_meta(MlflowState state, double end_seconds) const;
  void link_results() const;
  Status append(const char* key, double value, std::int64_t step, double unix_seconds) noexcept;

  MlflowPlace place_;
  std::string id_;
  std::int64_t began_ms_ = 0;
  Descriptor metrics_;  // the folder
};

// "file:///runs/mlruns"
std::string file_uri(const std::string& path);
// The command that shows a store.
std::string mlflow_command(const std::string& store);

}  // namespace bascule
