// SPDX-License-Identifier: Apache-2.0
// The prompts of a run that draws: those that are cut, are equal or are empty. Before the seal.
#pragma once

#include "src/doctor/diagnosis.h"
#include "src/settings/settings.h"

namespace bascule {

// Throws Error for settings and a pipeline that cannot be opened; a run that cannot be recorded is a finding.
void diagnose_prompts(const Settings& settings, Diagnosis* diagnosis);

}  // namespace bascule
