// SPDX-License-Identifier: Apache-2.0
// The largest of some numbers, and the nearest rows of a table.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "src/base/span.h"

namespace bascule {

// Nearest neighbours: rows of a table of embeddings, ordered by their dot product with a query. Allocates.

struct Neighbour {
  std::int64_t row = 0;
  double score = 0.0;  // summed in float64
};

// Those `rows` of the table, best first. Equal scores keep the order of `rows`; rows whose score is not a number come
// last. The table has query.size() columns.
std::vector<Neighbour> nearest(Span<const float> query, const float* table, Span<const std::int64_t> rows);

// The largest of some numbers, for predictions.

// places[0, most): of the largest values, the largest first and the first of equals first. Returns how many there are,
// `most` or, of fewer values, all. Allocates nothing.
inline std::int64_t places_of_largest(const float* values, std::int64_t count, std::int32_t* places,
                                      std::int64_t most) noexcept {
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t place = found;
    while (place > 0 && values[i] > values[places[place - 1]]) --place;
    if (place == most) continue;
    found = std::min(found + 1, most);
    std::copy_backward(places + place, places + found - 1, places + found);
    places[place] = static_cast<std::int32_t>(i);
  }
  return found;
}

}  // namespace bascule
