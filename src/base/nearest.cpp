// SPDX-License-Identifier: Apache-2.0
#include "src/base/nearest.h"

#include <cmath>
#include <cstddef>

namespace bascule {
namespace {

double dot(Span<const float> a, const float* b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

// An order even with scores that are not numbers: those are equal to each other and behind all others.
bool is_better(const Neighbour& a, const Neighbour& b) {
  if (std::isnan(a.score) || std::isnan(b.score)) return !std::isnan(a.score);
  return a.score > b.score;
}

}  // namespace

std::vector<Neighbour> nearest(Span<const float> query, const float* table, Span<const std::int64_t> rows) {
  const auto columns = static_cast<std::int64_t>(query.size());
  std::vector<Neighbour> neighbours;
  neighbours.reserve(rows.size());
  for (const std::int64_t row : rows) neighbours.push_back({row, dot(query, table + row * columns)});
  std::stable_sort(neighbours.begin(), neighbours.end(), is_better);
  return neighbours;
}

}  // namespace bascule
