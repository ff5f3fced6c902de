// SPDX-License-Identifier: Apache-2.0
// A case in bf16: loss and gradients of batch 0, judged by what torch.autocast reaches.
//   gradient of a parameter of 64 elements or more: 1 - cosine at most max(0.001, twice autocast's), as
//     tests/data/goldens/README.md has it ("Passing"), and its length within a tenth of the truth's
//   slice that is zero in exact arithmetic: at most 2^-8 of the gradient norm
//   loss: error at most max(0.005, twice autocast's). Not of the bare model, which has no loss of its own.
// Autocast's figures are those of one run, or the worst of the case's `bf16_draws` runs, which differ widely.
#pragma once

#include "src/verify/verify_judgement.h"
#include "src/verify/verify_model.h"

namespace bascule {

// The case holds one of them: model->trains().
void judge_bf16(const CaseFiles& files, CaseModel* model, Judgement* judgement);

}  // namespace bascule
