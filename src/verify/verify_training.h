// SPDX-License-Identifier: Apache-2.0
// A case's training run: ours, with the schedule and the update of `bascule run`, judged by the reference's.
#pragma once

#include "src/verify/verify_judgement.h"
#include "src/verify/verify_model.h"

namespace bascule {

// What the case holds of the run: losses, gradient norms and rates, and what became of the parameters.
// files.contents.run is true.
void judge_training(const CaseFiles& files, CaseModel* model, Judgement* judgement);

}  // namespace bascule
