// SPDX-License-Identifier: Apache-2.0
// Batches that every operation kind is tested with: below the bounds, one sample of one token, as many rows as the
// bounds allow.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/graph/graph_run.h"

namespace bascule::test {

inline constexpr std::int64_t kVocabulary = 9;
inline constexpr BatchCounts kBounds = counts_of(5, 40, 20);

// One sample of one token, then a few captions, then as many rows as the bounds allow.
inline std::vector<TestBatch> some_batches(const std::vector<std::int64_t>& first = {3, 1, 6}) {
  Seeded random(3);
  std::vector<TestBatch> batches;
  for (const std::vector<std::int64_t>& lengths :
       {first, std::vector<std::int64_t>{1}, std::vector<std::int64_t>{9, 4, 17, 2, 8}}) {
    batches.emplace_back(random, lengths, kVocabulary);
  }
  return batches;
}

inline std::vector<TestBatch> batches_with_pictures(std::int64_t elements, std::int64_t rows) {
  Seeded random(4);
  std::vector<TestBatch> batches = some_batches();
  for (TestBatch& batch : batches) batch.add_pictures(random, elements, rows);
  return batches;
}

// Labels of `classes`, every third negative.
inline std::vector<TestBatch> labelled_batches(std::int64_t classes) {
  Seeded random(5);
  std::vector<TestBatch> batches = some_batches();
  for (TestBatch& batch : batches) {
    for (std::int64_t r = 0; r < batch.text_rows(); ++r)
      batch.labels.push_back(r % 3 == 2 ? -100 : static_cast<std::int32_t>(random.integer(0, classes - 1)));
  }
  return batches;
}

}  // namespace bascule::test
