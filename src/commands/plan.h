// SPDX-License-Identifier: Apache-2.0
// `bascule plan FILE`: the memory plan of a run, without loading weights, and what it answers: the largest batch that
// fits, what is alive at the peak, what memory costs in operations.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/commands/unit.h"
#include "src/files/input_list.h"
#include "src/json/value.h"
#include "src/plan/memory_plan.h"
#include "src/settings/run_settings.h"

namespace bascule {

struct PlanArguments {
  SettingsSource settings;
  bool json = false;
  bool inputs = false;  // with json: the files that the run reads
  bool frontier = false;
  std::optional<double> memory_gib;  // of the machine that is planned for, in place of machine.memory_limit_gib
  std::string unit;                  // a file for a systemd unit of the run; empty: none
  std::string svg;                   // a file for the picture of the arena; empty: none
};

// Prints to standard output. Returns 0 if the plan fits the machine (or the memory that is given), 4 if not. Throws
// Error.
int plan_command(const PlanArguments& arguments);

// A plan as --json prints it; too_large: why it does not fit.
Json plan_json(const MemoryPlan& plan, const std::optional<Error>& too_large);

Json inputs_json(const std::vector<InputFolder>& inputs);
// This program, the settings file, and the cores that this process may use.
UnitPlace unit_place(const PlanArguments& arguments);

}  // namespace bascule
