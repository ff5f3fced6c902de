// SPDX-License-Identifier: Apache-2.0
// A case's other uses: training, generation, drawing.
#pragma once

#include <string>

#include "kernels/table.h"
#include "src/verify/verify_case.h"
#include "src/verify/verify_files.h"
#include "src/verify/verify_gradients.h"
#include "src/verify/verify_model.h"

namespace bascule {

// A case's training run: ours, with the schedule and the update of `bascule run`, judged by the reference's.

// Compares what the case has of a run: losses, gradient norms, rates, and the parameters at the end.
// files.contents.run is true.
void judge_training(const CaseFiles& files, CaseModel* model, Judgement* judgement);

// The model's generated ids in a case, all of which must be equal, and the scores of beams.

// Each entry of "generate" in case.json, for the first batch. Throws Error kData.
void judge_generation(const CaseFiles& files, const KernelTable& kernels, int threads, Judgement* judgement);

// rouge.json, where the case has one: the figures of pairs of texts, and stems of words.
void judge_rouge(const CaseFiles& files, Judgement* judgement);

// A reference case of a pipeline that draws: single calls of its models, and whole runs of its samplers. Layout:
// tests/data/goldens-families/README.md.

// Whether the case in the folder is one.
bool is_drawing_case(const std::string& folder);
// In bf16 a tensor is judged by its angle: 1 - cosine at most max(0.0005, twice what torch gets with all weights
// bfloat16, where float32_error.json has that); bytes are not compared. Throws Error kData.
VerifiedCase verify_drawing_case(const std::string& folder, Precision precision, const KernelTable& kernels,
                                 int threads);

}  // namespace bascule
