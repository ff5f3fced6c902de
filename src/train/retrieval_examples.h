// SPDX-License-Identifier: Apache-2.0
// Examples for report.html: captions with the pictures that the model finds for them, and the other way round. Finish
// phase.
#pragma once

#include "src/index/manifest.h"
#include "src/report/report.h"
#include "src/train/judged_split.h"

namespace bascule {

// From the embeddings of a split: eight evenly spaced captions, each with the five distinct
// pictures that are nearest, and eight evenly spaced distinct pictures, each with the five nearest captions.
void add_retrieval_examples(Report* report, const JudgedSplit& split, const Manifest& manifest, std::int64_t width);

}  // namespace bascule
