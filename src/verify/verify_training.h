// SPDX-License-Identifier: Apache-2.0
// A case's training run: ours, with the schedule and the update of `bascule run`, judged by the reference's.
#pragma once

#include "src/verify/verify_judgement.h"
#include "src/verify/verify_model.h"

namespace bascule {

// Compares what the case has of a run: losses, gradient norms, rates, and the parameters at the end.
// files.contents.run is true.
void judge_training(const CaseFiles& files, CaseModel* model, Judgement* judgement);

}  // namespace bascule
