// SPDX-License-Identifier: Apache-2.0
#include "src/plan/gradient_space.h"

#include <algorithm>

#include "src/base/align.h"

namespace bascule {

GradientSpace find_gradient_space(const Graph& graph, const ParameterLayout& layout) {
  const int end = static_cast<int>(graph.nodes().size());
  std::vector<int> first_writes(static_cast<std::size_t>(graph.parameters().size()), -1);
  for (int n = end; n-- > 0;) {
    for (const Operand& operand : graph.nodes()[static_cast<std::size_t>(n)].operands) {
      if (operand && graph[operand.tensor].storage == Storage::kGradient)
        first_writes[static_cast<std::size_t>(graph[operand.tensor].parameter)] = n;
    }
  }
  std::vector<TakenPlace> gradients;
  for (std::size_t p = 0; p < layout.places.size(); ++p) {
    if (!layout.places[p].trained || first_writes[p] < 0) continue;
    const std::size_t bytes =
        static_cast<std::size_t>(graph.parameters()[static_cast<int>(p)].elements()) * sizeof(float);
    // A line that a gradient does not fill is not free before it: the rest of it must stay zero.
    const std::size_t offset = static_cast<std::size_t>(layout.places[p].offset) * sizeof(float);
    const std::size_t whole = bytes / kCacheLine * kCacheLine;
    if (whole > 0) gradients.push_back({{whole, first_writes[p], end}, offset});
  }
  std::sort(gradients.begin(), gradients.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  GradientSpace space;
  space.bytes = align_up(static_cast<std::size_t>(layout.trained_elements) * sizeof(float), kCacheLine) + kCacheLine;
  std::size_t at = 0;
  for (const TakenPlace& gradient : gradients) {
    if (gradient.offset > at) space.taken.push_back({{gradient.offset - at, 0, end}, at});
    space.taken.push_back(gradient);
    at = gradient.offset + gradient.request.bytes;
  }
  space.taken.push_back({{space.bytes - at, 0, end}, at});
  return space;
}

}  // namespace bascule
