// SPDX-License-Identifier: Apache-2.0
// Samples that are a source and a target: rows where one of them is empty, and lengths. Before the seal.
#pragma once

#include "src/index/manifest.h"
#include "src/record/recorded_run.h"

namespace bascule {

// Finds the rows of a split with an empty source or target, and notes that they are skipped. Throws Error kData naming
// the first unless data.on_bad_sample = "skip", and where every row is one.
void find_empty_texts(RecordedRun* run, Manifest* manifest);

// Notes, a line for each split, how many texts are cut at their maximal length, and lengths that are not known yet. The
// loader is planned.
void note_lengths(RecordedRun* run);

}  // namespace bascule
