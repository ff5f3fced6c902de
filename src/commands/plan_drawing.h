// SPDX-License-Identifier: Apache-2.0
// `bascule plan FILE` for a run that draws.
#pragma once

#include "src/commands/plan.h"
#include "src/settings/settings.h"

namespace bascule {

// As plan_command(). Options that say nothing of such a run are refused.
int plan_drawing(const PlanArguments& arguments, const Settings& settings);

}  // namespace bascule
