// SPDX-License-Identifier: Apache-2.0
// A case in bf16: loss and gradients of batch 0, judged by what torch.autocast reaches. The rule stands in
// tests/data/goldens/README.md, "Passing". Of the bare model only gradients: it has no loss of its own.
#pragma once

#include "src/verify/verify_judgement.h"
#include "src/verify/verify_model.h"

namespace bascule {

void judge_bf16(const CaseFiles& files, CaseModel* model, Judgement* judgement);

}  // namespace bascule
