// SPDX-License-Identifier: Apache-2.0
// report.tracking: the run in a store of MLflow. Before the seal.
#pragma once

#include <string>

#include "src/logs/mlflow_run.h"
#include "src/settings/settings.h"

namespace bascule {

// report.tracking_dir as an absolute path, or the folder beside output_dir that is its default.
std::string tracking_store(const Settings& settings);

// By rank 0, before anything of the run changes: makes the store's folder. Throws Error{kDisk} where the run could not
// write there.
void check_tracking_store(const Settings& settings);

// By rank 0, of a run that is finished already: writes it whole unless the store has it, as where the settings ask for
// it only now. Says whether it wrote. Throws Error{kDisk}.
bool track_finished(const Settings& settings);

// By rank 0, once log.jsonl holds what counts. Writes nothing unless the settings ask for it. Throws Error{kDisk}.
MlflowRun open_tracking(const Settings& settings);

}  // namespace bascule
