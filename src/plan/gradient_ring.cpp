// SPDX-License-Identifier: Apache-2.0
#include "src/plan/gradient_ring.h"

#include <algorithm>

#include "src/base/check.h"

namespace bascule {
namespace {

struct Writes {
  int first = -1, last = -1;  // nodes; negative: none
  int last_read = -1;         // of the parameter's values
};

// The consumer of a bucket.
enum class Taking { kSum, kUpdate };

std::vector<Writes> writes_of_gradients(const Graph& graph) {
  std::vector<Writes> writes(static_cast<std::size_t>(graph.parameters().size()));
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    for (const Operand& operand : graph.nodes()[n].operands) {
      if (!operand) continue;
      const TensorInfo& info = graph[operand.tensor];
      if (info.storage == Storage::kParameter)
        writes[static_cast<std::size_t>(info.parameter)].last_read = static_cast<int>(n);
      if (info.storage != Storage::kGradient || operand.access == Access::kRead) continue;
      Writes& w = writes[static_cast<std::size_t>(info.parameter)];
      if (w.first < 0) w.first = static_cast<int>(n);
      w.last = static_cast<int>(n);
    }
  }
  return writes;
}

std::size_t bytes_of(const GradientRingPlan::Piece& piece) {
  return static_cast<std::size_t>(piece.elements) * sizeof(float);
}

std::vector<GradientRingPlan::Piece> pieces_in_order(const Graph& graph, const ParameterLayout& layout,
                                                     const std::vector<Writes>& writes) {
  std::vector<GradientRingPlan::Piece> pieces;
  for (int p = 0; p < graph.parameters().size(); ++p) {
    const std::size_t index = static_cast<std::size_t>(p);
    if (writes[index].first < 0) continue;
    BASCULE_CHECK(layout.places[index].trained);
    pieces.push_back({p, layout.places[index].offset, graph.parameters()[p].elements(), 0});
  }
  std::sort(pieces.begin(), pieces.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  return pieces;
}

// Two buckets are there at a time, and what is in the making.
constexpr std::size_t kFewestBuckets = 8;

std::vector<GradientRingPlan::Bucket> cut(const std::vector<GradientRingPlan::Piece>& pieces,
                                          const std::vector<Writes>& writes, std::size_t bucket_bytes, Taking taking) {
  std::vector<GradientRingPlan::Bucket> buckets;
  std::size_t bytes = 0;
  for (const GradientRingPlan::Piece& piece : pieces) bytes += bytes_of(piece);
  bucket_bytes = std::min(bucket_bytes, bytes / kFewestBuckets);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Writes& w = writes[static_cast<std::size_t>(pieces[i].parameter)];
    const int end_node = (taking == Taking::kUpdate ? std::max(w.last, w.last_read) : w.last) + 1;
    const bool is_later = buckets.empty() || end_node > buckets.back().end_node;
    if (is_later && (buckets.empty() || bytes + bytes_of(pieces[i]) > bucket_bytes)) {
      buckets.push_back({});
      bytes = 0;
    }
    bytes += bytes_of(pieces[i]);
    buckets.back().pieces_end = static_cast<std::int64_t>(i) + 1;
    buckets.back().end_node = std::max(buckets.back().end_node, end_node);
  }
  return buckets;
}

// Node n writes at time 2n + 1; what is final when the nodes below n have run is summed at time 2n.
std::vector<BufferRequest> lifetimes(const GradientRingPlan& plan, const std::vector<Writes>& writes, int nodes,
                                     Taking taking) {
  std::vector<BufferRequest> requests;
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    int released = b + 1 < plan.buckets.size() ? plan.buckets[b + 1].end_node : nodes;
    if (taking == Taking::kUpdate) released = plan.buckets[b].end_node;
    while (static_cast<std::int64_t>(requests.size()) < plan.buckets[b].pieces_end) {
      const GradientRingPlan::Piece& piece = plan.pieces[requests.size()];
      const int first = writes[static_cast<std::size_t>(piece.parameter)].first;
      requests.push_back({align_up(bytes_of(piece), kCacheLine), 2 * first + 1, 2 * released});
    }
  }
  return requests;
}

GradientRingPlan plan_ring(const Graph& graph, const ParameterLayout& layout, std::size_t bucket_bytes, Taking taking) {
  const std::vector<Writes> writes = writes_of_gradients(graph);
  GradientRingPlan plan;
  plan.pieces = pieces_in_order(graph, layout, writes);
  plan.buckets = cut(plan.pieces, writes, bucket_bytes, taking);
  const std::vector<BufferRequest> requests = lifetimes(plan, writes, static_cast<int>(graph.nodes().size()), taking);
  const Placement placement = place_buffers(requests);
  BASCULE_CHECK(!first_overlap(requests, placement).has_value());
  plan.bytes = placement.peak_bytes;
  plan.lower_bound_bytes = lower_bound_bytes(requests);
  plan.ring_offset.assign(static_cast<std::size_t>(graph.parameters().size()), 0);
  for (std::size_t i = 0; i < plan.pieces.size(); ++i) {
    plan.pieces[i].ring_offset = static_cast<std::int64_t>(placement.offsets[i] / sizeof(float));
    plan.ring_offset[static_cast<std::size_t>(plan.pieces[i].parameter)] = plan.pieces[i].ring_offset;
  }
  return plan;
}

}  // namespace

GradientRingPlan plan_gradient_ring(const Graph& graph, const ParameterLayout& layout, std::size_t bucket_bytes) {
  return plan_ring(graph, layout, bucket_bytes, Taking::kSum);
}

GradientRingPlan plan_update_ring(const Graph& graph, const ParameterLayout& layout) {
  GradientRingPlan plan = plan_ring(graph, layout, 0, Taking::kUpdate);
  const std::vector<Writes> writes = writes_of_gradients(graph);
  for (int p = 0; p < graph.parameters().size(); ++p) {
    const std::size_t index = static_cast<std::size_t>(p);
    if (!layout.places[index].trained || writes[index].first >= 0) continue;
    const std::size_t room =
        align_up(static_cast<std::size_t>(graph.parameters()[p].elements()) * sizeof(float), kCacheLine);
    plan.bytes = std::max(plan.bytes, room);
    plan.lower_bound_bytes = std::max(plan.lower_bound_bytes, room);
  }
  return plan;
}

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
