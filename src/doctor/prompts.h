// SPDX-License-Identifier: Apache-2.0
// The prompts of a run that draws: those that are cut, are equal or are empty. Before the seal.
#pragma once

#include "src/bringup/bring_up.h"
#include "src/doctor/diagnosis.h"
#include "src/settings/settings.h"

namespace bascule {

// profile: of the machine whose memory counts; null: of this one.
// Throws Error for settings and a pipeline that cannot be opened; a run that cannot be recorded is a finding.
void diagnose_prompts(const Settings& settings, const BringUp* profile, Diagnosis* diagnosis);

}  // namespace bascule
