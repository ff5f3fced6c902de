// SPDX-License-Identifier: Apache-2.0
// The prompts of a run that draws: those that are cut, are equal or are empty. Before the seal.
#pragma once

#include "src/doctor/diagnosis.h"
#include "src/doctor/doctor.h"
#include "src/settings/settings.h"

namespace bascule {

// Without a profile the memory of this machine counts.
// Throws Error for settings and a pipeline that cannot be opened; a run that cannot be recorded is a finding.
void diagnose_prompts(const Settings& settings, const DoctorOptions& options, Diagnosis* diagnosis);

}  // namespace bascule
