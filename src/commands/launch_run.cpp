// SPDX-License-Identifier: Apache-2.0
#include "src/commands/launch_run.h"

#include <cstdint>
#include <cstdio>

#include "src/base/error.h"
#include "src/base/messages.h"
#include "src/base/paths.h"
#include "src/checkpoint/find_checkpoint.h"
#include "src/commands/report_error.h"
#include "src/commands/stop_signal.h"
#include "src/distributed/launch.h"
#include "src/record/recorded_run.h"
#include "src/run_folder/run_folder.h"
#include "src/runtime/threads.h"
#include "src/settings/command_line_keys.h"

namespace bascule {
namespace {

// Sealed settings were made for a machine with these cores; threads without a core each would only wait for each other.
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

int launch_run(const Settings& settings, const std::string& settings_file, bool json,
               const std::function<bool()>& is_done, const std::string& go_on) {
  // While ranks whose launcher was killed still work in the folder, its files come and go: it is looked at once it is
  // free.
  if (!is_in_use(settings.run.output_dir.resolved) && is_done()) return 0;
  const RankPlace place = planned_place(settings.distributed, settings.origin);
  catch_stop_signals(true);
  const FolderLock lock(settings.run, settings.origin, FolderUser::kLauncher);
  // They may have finished the run.
  const bool was_finished = is_done();
  if (was_finished) return 0;
  mark_folder(settings);
  LaunchSettings launch;
  launch.machines = place.nodes;
  launch.ranks = static_cast<int>(settings.distributed.world_size);
  launch.command = {program_file(), "run"};
  if (!settings_file.empty()) launch.command.push_back(settings_file);
  for (const std::string& key : command_line_keys(settings)) launch.command.push_back(key);
  if (json) launch.command.push_back("--json");
  launch.session_folder = settings.run.output_dir.resolved + "/" + kLauncherFolder;
  launch.folder_lock = lock.descriptor();
  launch.hostfile = settings.distributed.hostfile.resolved;
  launch.go_on = go_on;
  launch.stop = stop_signal();
  launch.end_at_once = end_at_once();
  std::string document;  // one, whatever the ranks and their launcher say
  const int code = launch_ranks(launch, json ? &document : nullptr);
  if (json && code != 0 && document.empty())
    document = document_of_exit_code(code, "", "a rank failed", "run the same command again to resume");
  std::fputs(document.c_str(), stdout);
  return code;
}

}  // namespace bascule
