// SPDX-License-Identifier: Apache-2.0
#include "src/commands/stop.h"

#include <cstdio>

#include "src/base/error.h"
#include "src/base/shown_path.h"
#include "src/checkpoint/output_dir.h"
#include "src/distributed/stop_request.h"
#include "src/run_folder/run_folder.h"
#include "src/run_folder/run_marker.h"

namespace bascule {
namespace {

[[noreturn]] void refuse(const std::string& folder, const std::string& what, const std::string& what_to_do) {
  throw Error(ErrorKind::kSettings, shown_path(folder), what, what_to_do);
}

}  // namespace

int stop_command(const std::string& run) {
  const RunMarker marker = read_run_marker(run);
  if (!marker.exists) refuse(run, "is not the folder of a run", "name the output_dir of a run");
  if (marker.finished) refuse(run, "holds a finished run", "nothing is left to stop");
  if (!is_in_use(run)) refuse(run, "holds a run that is not running", "start it with `bascule run` first");
  if (marker.draws)
    refuse(run, "holds a run that draws: a part of its pictures is no finished run",
           "interrupt it with SIGINT (Ctrl+C) or SIGTERM: finished pictures are complete; the same command draws the "
           "rest");
  if (marker.settings.find("\ndo_train = true\n") == std::string::npos)
    refuse(run, "holds a run that does not train", "interrupt it with SIGINT (Ctrl+C) or SIGTERM");
  make_stop_request(run);
  std::printf(
      "%s: training ends after the update under way, or where the run is evaluating or saving, after the next; it "
      "then evaluates, saves and finishes\n",
      shown_path(run).c_str());
  return 0;
}

}  // namespace bascule
