// SPDX-License-Identifier: Apache-2.0
// The labels of the splits: how many rows each class has, which classes a split lacks, equal samples with different
// labels.
#pragma once

#include <vector>

#include "src/doctor/data.h"
#include "src/doctor/equal_rows.h"

namespace bascule {

// Whether the rows of a split have labels of their own, which the model reads.
bool has_own_labels(const RecordedSplit& split);

// Fills classes or values of the split's figures.
void count_labels(const RecordedSplit& split, const ModelInputs& model, SplitFigures* figures);

// figures, samples: by split; the digest of all that the model reads of a row but its label.
void find_in_labels(const OpenedData& opened, const std::vector<SplitFigures>& figures,
                    const std::vector<RowDigests>& samples, std::vector<Finding>* findings);

}  // namespace bascule
