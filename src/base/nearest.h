// SPDX-License-Identifier: Apache-2.0
// Nearest neighbours: rows of a table of embeddings, ordered by their dot product with a query. Allocates.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/span.h"

namespace bascule {

struct Neighbour {
  std::int64_t row = 0;
  double score = 0.0;  // summed in float64
};

// Those `rows` of the table, best first. Equal scores keep the order of `rows`; rows whose score is not a number come
// last. The table has query.size() columns.
std::vector<Neighbour> nearest(Span<const float> query, const float* table, Span<const std::int64_t> rows);

}  // namespace bascule
