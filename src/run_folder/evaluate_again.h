// SPDX-License-Identifier: Apache-2.0
// A finished training run that is asked for other evaluations alone: its weights are those of the finished folder,
// nothing is trained, and no checkpoint changes. Where the last checkpoint does not say what the folder was finished
// with - another one is the best and the only one that is kept, or evaluations changed later - `last_state/` does: a
// checkpoint's state and records without weights and moments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/checkpoint/checkpoint.h"
#include "src/record/recorded_run.h"
#include "src/settings/settings.h"

namespace bascule {

// The state in `last_state/` of a finished run that is asked for no more training; nothing where there is none. Throws
// Error{kData} where it cannot be read.
std::optional<ResumePoint> last_state_of(const Settings& settings);
// The same, as another rank has found it. Throws Error{kData}.
ResumePoint read_last_state(const RunSettings& run, std::int64_t step);
bool is_last_state(const ResumePoint& point);

// After recording: whether the run only evaluates a finished one again; then resume->finished says with which
// weights. Throws Error{kSettings} where that would train again what is finished, or where the weights were not kept.
void plan_evaluation_again(const Settings& settings, ResumeState* resume);

// Throws Error{kData} where the weights that a finished run left are missing or damaged: what is not there is not
// finished. Reads their headers alone.
void check_finished_model(const Settings& settings, std::int64_t global_step);

// By rank 0, when training goes on.
void remove_last_state(const std::string& output_dir);

}  // namespace bascule
