// SPDX-License-Identifier: Apache-2.0
// The kind of run that trains or evaluates. The includes by phase, with the function that begins each:
//   folder    run_folder/run_folder.h (checkpoint_to_go_on_from), checkpoint/find_checkpoint.h
//   record    record/recorded_run.h (record_run), record/check_fits.h, record/resume_check.h, seal/disk_demand.h
//   seal      seal/sealed_run.h (SealedRun), seal/sealed_records.h
//   replay    replay/loop.h (TrainingLoop::run), commands/report_error.h (stop_signal)
//   finish    finish/finish.h, answer/report.h, finish/run_record.h, run_folder/run_marker.h
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/answer/report.h"
#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/find_checkpoint.h"
#include "src/commands/report_error.h"
#include "src/commands/run_phases.h"
#include "src/distributed/agreement.h"
#include "src/finish/finish.h"
#include "src/finish/run_record.h"
#include "src/json/json.h"
#include "src/record/check_fits.h"
#include "src/record/plan_data.h"
#include "src/record/resume_check.h"
#include "src/record/run_inputs.h"
#include "src/run_folder/run_folder.h"
#include "src/run_folder/run_marker.h"
#include "src/seal/disk_demand.h"
#include "src/seal/sealed_records.h"
#include "src/seal/sealed_run.h"

namespace bascule {
namespace {

std::string watch_line(const Settings& settings) {
  return "report: to watch, " + mlflow_command(tracking_store(settings));
}

// The file that could not be written.
std::string failed_file(SealedRun& sealed) {
  const std::string folder = sealed.run().settings.run.output_dir.shown();
  if (sealed.hashes() != nullptr && sealed.hashes()->has_failed()) return folder + "/" + kTensorHashesFile;
  return sealed.writer() != nullptr ? sealed.writer()->failed_path() : folder;
}

// The rank that met the error says so; others only leave with its exit code.
[[noreturn]] void throw_status(const Status& status, SealedRun& sealed) {
  const RecordedSplit* recorded = sealed.run().data.find(sealed.loop().reading());
  const std::string folder = sealed.run().settings.run.output_dir.shown();
  switch (status.code) {
    case StatusCode::kDiskFailed:
      throw Error(ErrorKind::kDisk, failed_file(sealed),
                  std::string("cannot be written: ") + std::strerror(static_cast<int>(status.detail[0])),
                  std::string(advice_for_disk(static_cast<int>(status.detail[0]))) +
                      "; run the same command again to resume from the newest complete checkpoint, if any");
    case StatusCode::kRankFailed: throw PeerFailed{};
    case StatusCode::kNotFinite:
      if (status.detail[1] != 0)
        throw Error(ErrorKind::kData, "", describe(status, *recorded->manifest),
                    "remove the row, try a lower training.learning_rate, or resume from an older checkpoint");
      throw Error(ErrorKind::kData, "update " + std::to_string(status.detail[0]),
                  "loss, gradient or a parameter is not finite",
                  "try a lower training.learning_rate, or resume from an older checkpoint");
    case StatusCode::kNoFigure:
      throw Error(ErrorKind::kData, sealed.run().data.find(Split::kValidation)->manifest->files().name,
                  std::string("the evaluation after update ") + std::to_string(status.detail[0]) + " has no " +
                      sealed.run().pace.best_figure->name() + ", by which the best is chosen",
                  "choose another training.metric_for_best_model, or rows whose labels differ");
    case StatusCode::kTextsNotFinite:
      throw Error(ErrorKind::kData, sealed.run().settings.model.model_name_or_path.resolved,
                  "the model's logits are not finite",
                  sealed.run().graphs.trains() ? "try a lower training.learning_rate" : "its weights may be damaged");
    default:
      if (status.code == StatusCode::kReadFailed && status.detail[0] == WeightsReader::kUnreadable) {
        const std::int64_t step = sealed.loop().control().best().checkpoint;
        throw Error(
            ErrorKind::kData, folder + "/checkpoint-" + std::to_string(step),
            "the best weights cannot be read back: " +
                (status.detail[1] == 0 ? std::string("they differ from what was written")
                                       : std::string(std::strerror(static_cast<int>(status.detail[1])))),
            "to keep the last weights, set training.load_best_model_at_end = false and run the same command again");
      }
      // A row below zero: a checkpoint's weights that only pass through could not be read again.
      if (status.code == StatusCode::kReadFailed && status.detail[0] < 0) {
        throw Error(ErrorKind::kData, sealed.run().settings.model.model_name_or_path.resolved,
                    std::string("cannot be read: ") + std::strerror(static_cast<int>(status.detail[1])));
      }
      throw Error(ErrorKind::kData, "",
                  recorded != nullptr ? describe(status, *recorded->manifest) : "the loader failed");
  }
}

// The run is over all the same where the store cannot be written.
void end_tracking(SealedRun& sealed, MlflowState state) {
  try {
    sealed.tracking().end(state, unix_seconds());
  } catch (const Error& error) {
    say(std::string("MLflow's store could not be written: ") + error.what());
  }
}

// As Trainer does: with a limit of one, the last checkpoint was kept only until the best could take its place.
void keep_best_checkpoint(SealedRun& sealed) {
  const std::int64_t best = sealed.loop().control().best().checkpoint;
  if (best < 0) return;
  throw_if_failed(sealed.writer()->keep_only(best), sealed.run().settings.run.output_dir.resolved,
                  "removing all checkpoints but the best");
}

std::string kept_weights(const BestSummary& best) {
  const std::string step = std::to_string(best.step);
  if (best.weights_of == best.step) return "kept the weights of update " + step + ", the best by " + best.figure;
  return "kept the weights of update " + std::to_string(best.weights_of) + ": update " + step + ", the best by " +
         best.figure + ", was not saved";
}

// The checkpoint that all ranks go on from: rank 0 finds it, the others read the same.
std::optional<ResumePoint> agree_on_checkpoint(const Settings& settings, Group& group) {
  const PathSetting& named = settings.run.resume_checkpoint;
  std::optional<ResumePoint> point;
  agree_on(group, [&] {
    if (group.is_first()) point = checkpoint_to_go_on_from(settings);
  });
  const double is_named = point && point->folder == named.resolved ? 1.0 : 0.0;
  const double is_end = point && is_last_state(*point) ? 1.0 : 0.0;
  const double mine[] = {point ? static_cast<double>(point->global_step) : -1.0, is_named, is_end};
  std::vector<double> all(3 * static_cast<std::size_t>(group.size()));
  if (!group.exchange({mine, 3}, Span<double>(all))) throw PeerFailed{};
  agree_on(group, [&] {
    if (group.is_first() || all[0] < 0.0) return;
    const auto step = static_cast<std::int64_t>(all[0]);
    const std::string own = settings.run.output_dir.resolved + "/" + name_of_checkpoint(step);
    try {
      point = all[2] > 0.0 ? read_last_state(settings.run, step)
                           : read_checkpoint(all[1] > 0.0 ? named.resolved : own, step);
    } catch (const Error&) {
      if (group.node() == 0) throw;  // that another machine sees other files is said when all of them are compared
    }
  });
  return point;
}

class TrainingPhases final : public RunPhases {
 public:
  using RunPhases::RunPhases;

  bool is_done(bool) override {
    if (!is_finished_and_clear(settings_)) return false;
    say_ready();
    if (track_finished(settings_)) say(watch_line(settings_));
    const std::string results = settings_.run.output_dir.resolved + "/all_results.json";
    if (json_ && !std::filesystem::exists(results))
      throw Error(ErrorKind::kData, results, "is missing",
                  to_write_results_again(settings_.run, settings_.training.do_train));
    if (json_) std::puts(json_text(read_json_file(results), 4).c_str());
    return true;
  }

  bool record(Group& group, StartTimes* times) override {
    std::optional<ResumePoint> point = agree_on_checkpoint(settings_, group);
    times->end("folder and ranks");
    agree_on(group, [&] {
      if (group.is_first() && !settings_.report.mlperf_log.empty() && !point) {
        mark_folder(settings_);  // so that nobody takes the log for a stranger's file
        mlperf_ = begin_mlperf_log(settings_, times->began_ns());
      }
      run_ = record_run(settings_, place_, media_engine_builtin(), std::move(point), NewTokens::kAreKept);
      plan_evaluation_again(settings_, &run_->resume);
      if (group.is_first() && run_->resume.finished)
        check_finished_weights(settings_.run.output_dir.resolved, *run_->resume.finished);
      check_best_checkpoint(settings_.run, settings_.training, &run_->resume);
      const ProcessLimits now = read_process_limits();
      check_fits(*run_, now, limits_here(settings_.machine, now));
      if (group.is_first()) check_disk_for_tensors(*run_);
    });
    times->end("data and plan");
    return false;
  }

  void introduce() override {
    mark_folder(settings_);  // so that nobody takes a store within it for a stranger's file
    check_tracking_store(settings_);
    prepare_folder(*run_, isa_);
  }

  void seal(Group& group, StartTimes* times) override {
    sealed_.emplace(*run_, isa_, stop_signal(), &say, group, times);
  }

  std::string open_files(Group& group, StartTimes* times) override {
    if (group.is_first()) mark_begun(*run_, isa_);
    sealed_->open_files(&say, times);
    if (!group.is_first()) return "";
    hand_over_mlperf();
    say(times->line());
    return sealed_->tracking().is_open() ? watch_line(settings_) : "";
  }

  Status replay() noexcept override {
    const Status validated = train_and_validate();
    sealed_->mlperf().end_run(validated.ok());
    BASCULE_TRY(validated);
    BASCULE_TRY(sealed_->loop().evaluate(Split::kTest));
    return run_->graphs.trains() ? sealed_->loop().save_last_state() : ok_status();
  }

  void check(const Status& status) override {
    if (status.code == StatusCode::kNotFinite) {
      if (place_.rank != 0) throw PeerFailed{};  // all ranks know: the first one says it, behind its mark in the folder
      write_run_marker(settings_, {false, 0, std::max<std::int64_t>(1, status.detail[0])}, run_->resume.history,
                       provenance_of(*run_, isa_));
    }
    if (sealed_->mlperf().failed()) say(std::string(kMlperfLogFile) + " could not be written; lines are missing");
    if (!status.ok() && status.code != StatusCode::kStopped) throw_status(status, *sealed_);
  }

  void finish(Group& group, SealedFigures figures) override {
    if (run_->graphs.trains()) {
      const Update& update = run_->session.training().update();
      figures.sent_bytes = static_cast<std::uint64_t>(update.sent_bytes());
      figures.received_bytes = static_cast<std::uint64_t>(update.received_bytes());
    }
    (void)sum_of_machine(group, {&figures.resident_bytes, &figures.sent_bytes, &figures.received_bytes});
    const std::vector<SkippedSamples> skipped = gather_skipped(*sealed_, group);
    if (group.is_first()) write_results(figures, skipped);
  }

  std::string stopped(int signal) override {
    end_tracking(*sealed_, MlflowState::kKilled);
    return stopped_text(signal, run_->graphs.trains() ? sealed_->loop().position().global_step : 0);
  }

  RunStatus& status() override { return sealed_->status(); }
  const char* go_on() const override {
    return "run the same command again to resume from the newest complete checkpoint, if any";
  }

 private:
  // Of a run that begins. One that resumes goes on with its own; what is only evaluated again leaves it alone.
  void hand_over_mlperf() {
    if (settings_.report.mlperf_log.empty() || run_->resume.finished) return;
    if (mlperf_.is_open()) log_mlperf_facts(*run_, &mlperf_);
    if (run_->resume.point)
      mlperf_ = MlperfLog::go_on(settings_.run.output_dir.resolved, run_->resume.point->global_step);
    sealed_->mlperf() = std::move(mlperf_);
  }

  Status train_and_validate() noexcept {
    if (run_->graphs.trains()) {
      BASCULE_TRY(sealed_->loop().run());
      BASCULE_TRY(sealed_->loop().load_best());
    }
    return sealed_->loop().evaluate(Split::kValidation);
  }

  void write_results(const SealedFigures& figures, const std::vector<SkippedSamples>& skipped) {
    Report report = make_report(*sealed_, figures, skipped);
    if (run_->resume.finished)
      mark_replaced(report.output_dir,
                    run_->resume.finished->folder == report.output_dir ? Replaced::kResults : Replaced::kWeights);
    write_judged(*sealed_, &report);
    write_run_folder(*sealed_, report);
    remove_stop_request(settings_.run.output_dir.resolved);
    write_run_marker(settings_, {true, report.global_step, 0}, run_->resume.history, report.provenance,
                     record_json(make_record(*sealed_, report)));
    const bool may_remove =
        report.best.is_known && !run_->resume.finished;  // what is only evaluated again keeps its checkpoints
    if (may_remove && settings_.training.save_total_limit == 1) keep_best_checkpoint(*sealed_);
    status().end("finished");
    end_tracking(*sealed_, MlflowState::kFinished);
    const std::string bad_samples = bad_samples_note(report);
    if (!bad_samples.empty()) say(bad_samples);
    std::fputs((json_ ? all_results_json(report) : summary_text(report)).c_str(), stdout);
    if (!report.best.stopped_early.empty())
      say("run: stopped early after update " + std::to_string(report.global_step) + ": " + report.best.stopped_early);
    if (report.best.is_known && settings_.training.load_best_model_at_end) say("run: " + kept_weights(report.best));
  }

  MlperfLog mlperf_;
  std::unique_ptr<RecordedRun> run_;
  std::optional<SealedRun> sealed_;
};

}  // namespace

std::unique_ptr<RunPhases> training_phases(const Settings& settings, const RankPlace& place, Isa isa, bool json) {
  return std::make_unique<TrainingPhases>(settings, place, isa, json);
}

}  // namespace bascule
