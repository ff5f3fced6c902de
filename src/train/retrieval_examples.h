// SPDX-License-Identifier: Apache-2.0
// Examples for report.html: captions with the pictures that the model finds for them, and the other way round. Finish
// phase.
#pragma once

#include "src/data/manifest.h"
#include "src/report/report.h"
#include "src/train/evaluate.h"

namespace bascule {

// From the embeddings of the split that was evaluated last: eight evenly spaced rows each way, five answers each.
void add_retrieval_examples(Report* report, const Evaluation& evaluation, const Manifest& manifest, std::int64_t width);

}  // namespace bascule
