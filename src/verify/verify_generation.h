// SPDX-License-Identifier: Apache-2.0
// What a case says that the model generates: ids, all of which must be equal, and the scores of beams.
#pragma once

#include "kernels/isa.h"
#include "src/verify/verify_files.h"
#include "src/verify/verify_judgement.h"

namespace bascule {

// Each entry of "generate" in case.json, for the first batch. Throws Error kData.
void judge_generation(const CaseFiles& files, Isa isa, int threads, Judgement* judgement);

// rouge.json, where the case has one: the figures of pairs of texts, and stems of words.
void judge_rouge(const CaseFiles& files, Judgement* judgement);

}  // namespace bascule
