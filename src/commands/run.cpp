// SPDX-License-Identifier: Apache-2.0
// `bascule run` for training and evaluation. The includes by phase, with the function that begins each:
//   folder    run_folder/run_folder.h (FolderLock, checkpoint_to_go_on_from), checkpoint/find_checkpoint.h
//   ranks     commands/launch_run.h (launch_run), commands/report_error.h (agree_on), distributed/group.h
//   record    record/recorded_run.h (record_run), record/check_fits.h, record/resume_check.h, seal/disk_demand.h
//   seal      seal/sealed_run.h (SealedRun), seal/sealed_records.h, runtime/guard.h
//   replay    replay/loop.h (TrainingLoop::run), commands/stop_signal.h
//   finish    finish/finish.h, answer/report.h, reproduce/run_record.h, run_folder/run_marker.h
#include "src/commands/commands.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/answer/report.h"
#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/messages.h"
#include "src/base/paths.h"
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/find_checkpoint.h"
#include "src/commands/check_outputs.h"
#include "src/commands/launch_run.h"
#include "src/commands/report_error.h"
#include "src/commands/stop_signal.h"
#include "src/distributed/agreement.h"
#include "src/distributed/group.h"
#include "src/finish/bad_samples.h"
#include "src/finish/finish.h"
#include "src/json/json.h"
#include "src/logs/readable.h"
#include "src/pictures/picture_decoder.h"
#include "src/record/check_fits.h"
#include "src/record/mlperf_facts.h"
#include "src/record/opened_model.h"
#include "src/record/plan_control.h"
#include "src/record/resume_check.h"
#include "src/record/unread_settings.h"
#include "src/reproduce/run_record.h"
#include "src/run_folder/evaluate_again.h"
#include "src/run_folder/run_folder.h"
#include "src/run_folder/run_marker.h"
#include "src/runtime/choose_isa.h"
#include "src/runtime/guard.h"
#include "src/runtime/threads.h"
#include "src/seal/disk_demand.h"
#include "src/seal/sealed_records.h"
#include "src/seal/sealed_run.h"
#include "src/settings/command_line_keys.h"

namespace bascule {
namespace {

std::string watch_line(const Settings& settings) {
  return "report: to watch, " + mlflow_command(tracking_store(settings));
}

// Whether the run is finished; then what is still to do.
bool is_done(const Settings& settings, bool json) {
  if (!is_finished_and_clear(settings)) return false;
  say_ready();
  if (track_finished(settings)) say(watch_line(settings));
  const std::string results = settings.run.output_dir.resolved + "/all_results.json";
  if (json && !std::filesystem::exists(results))
    throw Error(ErrorKind::kData, results, "is missing", to_write_results_again(settings));
  if (json) std::puts(json_text(read_json_file(results), 4).c_str());
  return true;
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

int stopped(int signal, SealedRun& sealed, bool json) {
  sealed.status().end("stopped");
  end_tracking(sealed, MlflowState::kKilled);
  const std::string text =
      stopped_text(signal, sealed.run().graphs.trains() ? sealed.loop().position().global_step : 0);
  say(text);
  if (json) std::fputs(document_of_stop(signal, text).c_str(), stdout);
  return 128 + signal;
}

SealedFigures measure_sealed(SealedRun& sealed) {
  Group& group = sealed.group();
  SealedFigures figures;
  figures.guarded = guard_is_active();
  ForeignAllocations foreign[64];
  const std::size_t count = foreign_allocations(foreign, 64);
  const Update* const update = sealed.run().graphs.trains() ? &sealed.run().session.training().update() : nullptr;
  const double own[] = {static_cast<double>(resident_bytes(group.local_size())),
                        update != nullptr ? static_cast<double>(update->sent_bytes()) : 0.0,
                        update != nullptr ? static_cast<double>(update->received_bytes()) : 0.0};
  open_memory();
  std::vector<double> of_ranks(3 * static_cast<std::size_t>(group.size()));
  if (group.exchange({own, 3}, Span<double>(of_ranks))) {
    std::uint64_t* const sums[] = {&figures.resident_bytes, &figures.sent_bytes, &figures.received_bytes};
    for (int rank = 0; rank < group.local_size(); ++rank) {  // of this machine's, as the plan is
      const std::size_t row = 3 * static_cast<std::size_t>(group.node() * group.local_size() + rank);
      for (std::size_t i = 0; i < 3; ++i) *sums[i] += static_cast<std::uint64_t>(of_ranks[row + i]);
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    figures.foreign_calls += foreign[i].calls;
    figures.foreign_bytes += foreign[i].bytes;
    figures.foreign_allocations.push_back(
        {foreign[i].library, count_of(foreign[i].calls, "call") + ", " + readable_bytes(foreign[i].bytes).c_str()});
  }
  return figures;
}

Status train_and_validate(SealedRun& sealed) {
  if (sealed.run().graphs.trains()) {
    BASCULE_TRY(sealed.loop().run());
    BASCULE_TRY(sealed.loop().load_best());
  }
  return sealed.loop().evaluate(Split::kValidation);
}

// Replay: training, evaluation, prediction.
Status replay(SealedRun& sealed) {
  seal_memory();
  const Status validated = train_and_validate(sealed);
  sealed.mlperf().end_run(validated.ok());
  BASCULE_TRY(validated);
  BASCULE_TRY(sealed.loop().evaluate(Split::kTest));
  return sealed.run().graphs.trains() ? sealed.loop().save_last_state() : ok_status();
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

void finish(SealedRun& sealed, const SealedFigures& figures, const std::vector<SkippedSamples>& skipped, bool json) {
  const RecordedRun& run = sealed.run();
  const Settings& settings = run.settings;
  Report report = make_report(sealed, figures, skipped);
  if (run.resume.finished)
    mark_replaced(report.output_dir,
                  run.resume.finished->folder == report.output_dir ? Replaced::kResults : Replaced::kWeights);
  write_judged(sealed, &report);
  write_run_folder(sealed, report);
  remove_stop_request(settings.run.output_dir.resolved);
  write_run_marker(settings, {true, report.global_step, 0}, run.resume.history, report.provenance,
                   record_json(make_record(sealed, report)));
  const bool may_remove =
      report.best.is_known && !run.resume.finished;  // what is only evaluated again keeps its checkpoints
  if (may_remove && settings.training.save_total_limit == 1) keep_best_checkpoint(sealed);
  sealed.status().end("finished");
  end_tracking(sealed, MlflowState::kFinished);
  const std::string bad_samples = bad_samples_note(report);
  if (!bad_samples.empty()) say(bad_samples);
  std::fputs((json ? all_results_json(report) : summary_text(report)).c_str(), stdout);
  if (!report.best.stopped_early.empty()) {
    say("run: stopped early after update " + std::to_string(report.global_step) + ": " + report.best.stopped_early);
  }
  if (report.best.is_known && settings.training.load_best_model_at_end) say("run: " + kept_weights(report.best));
  say("run: finished; see " + settings.run.output_dir.shown() + (settings.report.html ? "/report.html" : ""));
}

// mlperf: of a run that begins. One that resumes goes on with its own; what is only evaluated again leaves it alone.
void hand_over(MlperfLog mlperf, SealedRun* sealed) {
  const RecordedRun& run = sealed->run();
  if (run.settings.report.mlperf_log.empty() || run.resume.finished) return;
  if (mlperf.is_open()) log_mlperf_facts(run, &mlperf);
  if (run.resume.point) mlperf = MlperfLog::go_on(run.settings.run.output_dir.resolved, run.resume.point->global_step);
  sealed->mlperf() = std::move(mlperf);
}

int replay_and_finish(SealedRun& sealed, bool json) {
  const RecordedRun& run = sealed.run();
  Group& group = sealed.group();
  const Status status = replay(sealed);
  const SealedFigures figures = measure_sealed(sealed);
  if (status.code == StatusCode::kNotFinite) {
    if (!group.is_first()) throw PeerFailed{};  // all ranks know: the first one says it, behind its mark in the folder
    write_run_marker(run.settings, {false, 0, std::max<std::int64_t>(1, status.detail[0])}, run.resume.history,
                     provenance_of(run, sealed.isa()));
  }
  group.set_phase(RankPhase::kFinishing);
  if (sealed.mlperf().failed()) say(std::string(kMlperfLogFile) + " could not be written; lines are missing");
  if (status.code == StatusCode::kStopped)
    return group.is_first() ? stopped(static_cast<int>(status.detail[0]), sealed, json)
                            : 128 + static_cast<int>(status.detail[0]);
  if (!status.ok()) throw_status(status, sealed);
  const std::vector<SkippedSamples> skipped = gather_skipped(sealed, group);
  if (group.is_first()) finish(sealed, figures, skipped, json);
  return 0;
}

int run_recorded(RecordedRun& run, Isa isa, Group& group, bool json, StartTimes* times, MlperfLog mlperf) {
  if (group.is_first()) {
    mark_folder(run.settings);  // so that nobody takes a store within it for a stranger's file
    check_tracking_store(run.settings);
    prepare_folder(run, isa);
  }
  group.set_phase(RankPhase::kSealing);
  SealedRun sealed(run, isa, stop_signal(), &say, group, times);
  if (group.is_first()) mark_begun(run, isa);
  sealed.open_files(&say, times);
  if (group.is_first()) {
    hand_over(std::move(mlperf), &sealed);
    say(times->line());
    say("seal: " + isa_text(isa, run.settings) + ", " +
        (group.size() > 1 ? std::to_string(group.size()) + " ranks of " : std::string()) +
        count_of(run.threads, "thread") +
        "; from here on Bascule allocates nothing, and allocations by libraries are counted");
    if (sealed.tracking().is_open()) say(watch_line(run.settings));
  }
  try {
    return replay_and_finish(sealed, json);
  } catch (...) {
    if (group.is_first()) sealed.status().end("failed");
    throw;
  }
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

// One process of a run: the only one, or one of several ranks.
int run_rank(const Settings& settings, const RankPlace& place, bool json, StartTimes* times) {
  times->end("settings");
  Group group(place, {settings.distributed.timeout_seconds});
  return in_group(group, json, [&] {
    group.take_cores();
    const bool keeps_folder = place.launcher.empty() && group.is_first();  // else the launcher does
    std::optional<FolderLock> lock;
    bool done = false;
    agree_on(group, [&] {
      if (!keeps_folder && group.is_first()) lock.emplace(settings.run, settings.origin, FolderUser::kRank);
      if (!keeps_folder) return;
      // A process that is ending removes checkpoints: a folder is looked at once it is free.
      done = !is_in_use(settings.run.output_dir.resolved) && is_done(settings, json);
      if (!done) lock.emplace(settings.run, settings.origin, FolderUser::kProcess);
      if (lock) done = is_done(settings, json);  // the other process may have finished the run
    });
    if (any_of(group, done)) return 0;
    std::optional<ResumePoint> point = agree_on_checkpoint(settings, group);
    times->end("folder and ranks");
    MlperfLog mlperf;
    std::unique_ptr<RecordedRun> run;
    const Isa isa = choose_isa(settings);
    agree_on(group, [&] {
      if (group.is_first() && !settings.report.mlperf_log.empty() && !point) {
        mark_folder(settings);  // so that nobody takes the log for a stranger's file
        mlperf = begin_mlperf_log(settings, times->began_ns());
      }
      run = record_run(settings, place, media_engine_builtin(), std::move(point), NewTokens::kAreKept);
      plan_evaluation_again(settings, &run->resume);
      if (group.is_first() && run->resume.finished)
        check_finished_weights(settings.run.output_dir.resolved, *run->resume.finished);
      check_best_checkpoint(settings.run, settings.training, &run->resume);
      const ProcessLimits now = read_process_limits();
      check_fits(*run, now, limits_here(settings.machine, now));
      if (group.is_first()) check_disk_for_tensors(*run);
    });
    times->end("data and plan");
    catch_stop_signals(false);
    return run_recorded(*run, isa, group, json, times, std::move(mlperf));
  });
}

// `bascule run` of several ranks.
int run_launcher(const Settings& settings, const std::string& settings_file, bool json) {
  return launch_run(
      settings, settings_file, json, [&] { return is_done(settings, json); },
      "run the same command again to resume from the newest complete checkpoint, if any");
}

void refuse_machines_without_mpi(const Settings& settings) {
  const DistributedSettings& distributed = settings.distributed;
  if (distributed.machines == 1 || !mpi_version().empty()) return;
  const bool is_listed = distributed.hostfile.is_given();
  throw Error(ErrorKind::kSettings,
              is_listed ? where_written(settings, "distributed.hostfile") : "the launcher's environment",
              (is_listed ? "distributed.hostfile: " : "") + std::to_string(distributed.machines) +
                  " machines cannot be connected: this program was built without MPI",
              "use one machine, or install libopenmpi-dev and build with -Dmpi=auto");
}

// The MPI library would end the process with thirty lines of its own. Returns the exit code: rank 0 tells it for all.
int refuse_machines_without_pmix(const RankPlace& place) {
  if (place.rank != 0) return exit_code(ErrorKind::kSettings);
  throw Error(ErrorKind::kSettings, "the launcher's environment",
              "Slurm started ranks on " + std::to_string(place.nodes) +
                  " machines without PMIx, by which the MPI library connects them",
              "start the program with `srun --mpi=pmix`");
}

}  // namespace

int run_command(const SettingsSource& source, bool json) {
  const StartTimes times;  // from here on
  return run_settings(settings_of_run(source, model_words), source.file, json, times);
}

bool is_trained(Settings settings) {
  settings.distributed.machines = planned_place(settings.distributed, settings.origin).nodes;
  return !is_in_use(settings.run.output_dir.resolved) && is_finished_and_clear(settings);
}

int run_settings(Settings settings, const std::string& settings_file, bool json, StartTimes times) {
  const RankPlace place = place_from_environment();
  if (!place.is_alone()) speak_as_rank(place.rank);
  if (sealed_settings() != nullptr && place.rank == 0) check_tree(tree_of_program());
  refuse_unsupported(settings);
  require_products(settings.machine, settings.origin);
  refuse_serving(settings);
  settings.serve = {};  // it comes afterwards
  if (settings.draw.is_given) return run_drawing(settings, place, settings_file, json);
  // Says what is wrong there before anything is read.
  (void)media_options(settings.media_engine.simulation, settings.origin, media_engine_builtin());
  // Says also whether the ranks can be spread over the machines.
  settings.distributed.machines =
      place.is_alone() ? planned_place(settings.distributed, settings.origin).nodes : place.nodes;
  refuse_machines_without_mpi(settings);
  if (place.nodes > 1 && place.lacks_pmix) return refuse_machines_without_pmix(place);
  (void)choose_isa(settings);  // on any machine but the right one, before anything is read
  check_output_is_apart(settings);
  if (is_launcher(settings, place)) return run_launcher(settings, settings_file, json);
  return run_rank(settings, place, json, &times);
}

}  // namespace bascule
