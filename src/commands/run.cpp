// SPDX-License-Identifier: Apache-2.0
// `bascule run`: the walk of every run through its phases. What a kind of run does in each: commands/run_phases.h.
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/checkpoint/find_checkpoint.h"
#include "src/commands/check_outputs.h"
#include "src/commands/commands.h"
#include "src/commands/report_error.h"
#include "src/commands/run_phases.h"
#include "src/distributed/group.h"
#include "src/distributed/launch.h"
#include "src/pictures/picture_decoder.h"
#include "src/record/opened_model.h"
#include "src/record/recorded_run.h"
#include "src/record/run_inputs.h"
#include "src/run_folder/run_folder.h"
#include "src/runtime/choose_isa.h"
#include "src/runtime/guard.h"
#include "src/runtime/threads.h"
#include "src/settings/command_line_keys.h"

namespace bascule {
namespace {

// Called by the first rank. Locks the folder, unless the run in it is finished: then returns true.
bool lock_folder(RunPhases& run, const Settings& settings, const RankPlace& place, std::optional<FolderLock>* lock) {
  if (!place.launcher.empty()) {  // the launcher holds the lock and has looked
    lock->emplace(settings.run, settings.origin, FolderUser::kRank);
    return false;
  }
  // The folder is read only once it is free: a process that is ending removes checkpoints.
  if (!is_in_use(settings.run.output_dir.resolved) && run.is_done(true)) return true;
  lock->emplace(settings.run, settings.origin, FolderUser::kProcess);
  return run.is_done(true);  // the other process may have finished the run
}

int replay_and_finish(RunPhases& run, const Settings& settings, Group& group, bool json) {
  seal_memory();
  const Status status = run.replay();
  SealedFigures figures = measure_sealed(group.local_size());  // opens memory again
  run.check(status);
  group.set_phase(RankPhase::kFinishing);
  if (status.code == StatusCode::kStopped) {
    const int signal = static_cast<int>(status.detail[0]);
    if (!group.is_first()) return 128 + signal;
    run.status().end("stopped");
    const std::string text = run.stopped(signal);
    say(text);
    if (json) std::fputs(document_of_stop(signal, text).c_str(), stdout);
    return 128 + signal;
  }
  run.finish(group, std::move(figures));
  if (group.is_first())
    say("run: finished; see " + settings.run.output_dir.shown() + (settings.report.html ? "/report.html" : ""));
  return 0;
}

// One process of a run: the only one, or one of several ranks.
int run_rank(std::unique_ptr<RunPhases> phases, const Settings& settings, const RankPlace& place, Isa isa, bool json,
             StartTimes* times) {
  times->end("settings");
  Group group(place, {settings.distributed.timeout_seconds});
  return in_group(group, json, [&] {
    std::optional<FolderLock> lock;
    const std::unique_ptr<RunPhases> run = std::move(phases);  // destroyed before the lock and the group
    group.take_cores();
    bool done = false;
    agree_on(group, [&] { done = group.is_first() && lock_folder(*run, settings, place, &lock); });
    if (any_of(group, done) || run->record(group, times)) return 0;
    catch_stop_signals(false);
    const int threads = compute_threads(settings.machine, place);  // counts cores: before a thread is pinned
    if (group.is_first()) run->introduce();
    group.set_phase(RankPhase::kSealing);
    run->seal(group, times);
    const std::string to_watch = run->open_files(group, times);
    if (group.is_first()) say(seal_line(isa, settings, group.size(), threads));
    if (!to_watch.empty()) say(to_watch);
    try {
      return replay_and_finish(*run, settings, group, json);
    } catch (...) {
      if (group.is_first()) run->status().end("failed");
      throw;
    }
  });
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

// Without this the MPI library would end the process with thirty lines. Rank 0 throws; others return the exit code.
int refuse_machines_without_pmix(const RankPlace& place) {
  if (place.rank != 0) return exit_code(ErrorKind::kSettings);
  throw Error(ErrorKind::kSettings, "the launcher's environment",
              "Slurm started ranks on " + std::to_string(place.nodes) +
                  " machines without PMIx, by which the MPI library connects them",
              "start the program with `srun --mpi=pmix`");
}

}  // namespace

std::string seal_line(Isa isa, const Settings& settings, int ranks, int threads) {
  return "seal: " + isa_text(isa, settings.machine, settings.model.precision) + ", " +
         (ranks > 1 ? std::to_string(ranks) + " ranks of " : "") + count_of(threads, "thread") +
         "; from here on Bascule allocates nothing, and allocations by libraries are counted";
}

void check_own_tree() {
  if (sealed_settings() != nullptr && place_from_environment().rank == 0) check_tree(tree_of_program());
}

int run_command(const SettingsSource& source, bool json) {
  const StartTimes times;  // from here on
  check_own_tree();
  return run_settings(settings_of_run(source, model_words), source.file, json, times);
}

bool is_trained(Settings settings) {
  settings.distributed.machines = planned_place(settings.distributed, settings.origin).nodes;
  return !is_in_use(settings.run.output_dir.resolved) && is_finished_and_clear(settings);
}

int run_settings(Settings settings, const std::string& settings_file, bool json, StartTimes times) {
  const RankPlace place = place_from_environment();
  if (!place.is_alone()) speak_as_rank(place.rank);
  refuse_unsupported(settings);
  require_products(settings.machine, settings.origin);
  refuse_serving(settings);
  std::vector<std::string> file_and_keys = command_line_keys(settings);
  if (!settings_file.empty()) file_and_keys.insert(file_and_keys.begin(), settings_file);
  settings.serve = {};  // `bascule serve` reads it
  auto& where = settings.origin.where;
  for (auto at = where.begin(); at != where.end();)
    at = at->first == "serve" || at->first.rfind("serve.", 0) == 0 ? where.erase(at) : std::next(at);
  const bool draws = settings.draw.is_given;
  if (!draws) {
    // Throws for a fault in [media_engine.simulation] before any file is read.
    (void)media_options(settings.media_engine.simulation, settings.origin, media_engine_builtin());
    // planned_place() also throws where the ranks cannot be spread over the machines.
    settings.distributed.machines =
        place.is_alone() ? planned_place(settings.distributed, settings.origin).nodes : place.nodes;
    refuse_machines_without_mpi(settings);
    if (place.nodes > 1 && place.lacks_pmix) return refuse_machines_without_pmix(place);
  }
  // Throws on a machine without that ISA, before any file is read.
  const Isa isa = choose_isa(settings.machine, settings.model.precision);
  if (!draws) check_output_is_apart(settings);
  std::unique_ptr<RunPhases> run = (draws ? drawing_phases : training_phases)(settings, place, isa, json);
  if (is_launcher(settings, place))
    return launch_run(
        settings, file_and_keys, json, [&] { return run->is_done(false); }, run->go_on());
  return run_rank(std::move(run), settings, place, isa, json, &times);
}

namespace {

// Sealed settings fix the number of threads. Threads without a core each would only wait for each other.
void check_cores(const Settings& settings, const RankPlace& place) {
  const std::int64_t threads = settings.machine.threads, ranks = place.local_size;
  if (sealed_settings() == nullptr || threads * ranks <= usable_cores()) return;
  throw Error(ErrorKind::kSettings, where_written(settings, "machine.threads"),
              count_of(ranks, "rank") + " of " + count_of(threads, "thread") + " need more than the " +
                  count_of(usable_cores(), "core") + " of this machine",
              "use a machine with enough cores, or build the program with machine.threads = 0");
}

}  // namespace

bool is_launcher(const Settings& settings, const RankPlace& place) {
  check_cores(settings, place.is_alone() ? planned_place(settings.distributed, settings.origin) : place);
  if (place.is_alone() && settings.distributed.world_size > 1) return true;
  if (place.world_size == settings.distributed.world_size) return false;
  throw Error(ErrorKind::kSettings, where_written(settings, "distributed.world_size"),
              "distributed.world_size = " + std::to_string(settings.distributed.world_size) + ", but " +
                  std::to_string(place.world_size) + " ranks were started",
              "make the two equal");
}

int launch_run(const Settings& settings, const std::vector<std::string>& file_and_keys, bool json,
               const std::function<bool()>& is_done, const std::string& go_on) {
  // The folder is read only once it is free: ranks that outlived a killed launcher may still write and remove files in
  // it.
  if (!is_in_use(settings.run.output_dir.resolved) && is_done()) return 0;
  const RankPlace place = planned_place(settings.distributed, settings.origin);
  catch_stop_signals(true);
  const FolderLock lock(settings.run, settings.origin, FolderUser::kLauncher);
  // Those ranks may have finished the run.
  const bool was_finished = is_done();
  if (was_finished) return 0;
  mark_folder(settings);
  LaunchSettings launch;
  launch.machines = place.nodes;
  launch.ranks = static_cast<int>(settings.distributed.world_size);
  launch.command = {program_file(), "run"};
  launch.command.insert(launch.command.end(), file_and_keys.begin(), file_and_keys.end());
  if (json) launch.command.push_back("--json");
  launch.session_folder = settings.run.output_dir.resolved + "/" + kLauncherFolder;
  launch.folder_lock = lock.descriptor();
  launch.hostfile = settings.distributed.hostfile.resolved;
  launch.go_on = go_on;
  launch.stop = stop_signal();
  launch.end_at_once = end_at_once();
  std::string document;  // one for all ranks and the launcher
  const int code = launch_ranks(launch, json ? &document : nullptr);
  if (json && code != 0 && document.empty())
    document = document_of_exit_code(code, "", "a rank failed", "run the same command again to resume");
  std::fputs(document.c_str(), stdout);
  return code;
}

}  // namespace bascule
