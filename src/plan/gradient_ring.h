// SPDX-License-Identifier: Apache-2.0
// Where gradients lie, and the activations that use their range before them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/span.h"
#include "src/graph/graph.h"
#include "src/plan/place.h"

namespace bascule {

// The gradient ring: where a rank's gradients lie when they are taken bucket by bucket during backward, for a sum over
// the ranks or for the update of their parameters, and need not stay. Each parameter's gradient has a place from its
// first write until its bucket has been taken; places are used again.

struct GradientRingPlan {
  struct Piece {  // the gradient of one parameter
    int parameter = 0;
    std::int64_t offset = 0, elements = 0;  // in the trained range
    std::int64_t ring_offset = 0;           // in the ring, in elements
  };
  struct Bucket {
    std::int64_t pieces_end = 0;  // it has those from the end of the bucket before
    int end_node = 0;             // its gradients are final when the graph's nodes below this one have run
  };
  std::vector<Piece> pieces;              // of all parameters that have a gradient, in the order of the layout
  std::vector<Bucket> buckets;            // at growing end_nodes
  std::vector<std::int64_t> ring_offset;  // by parameter, in elements; 0 for one without gradient
  std::size_t bytes = 0;                  // of one rank's ring
  std::size_t lower_bound_bytes = 0;

  Span<const Piece> pieces_of(std::size_t bucket) const noexcept {
    const std::int64_t first = bucket == 0 ? 0 : buckets[bucket - 1].pieces_end;
    return Span<const Piece>(pieces.data() + first, static_cast<std::size_t>(buckets[bucket].pieces_end - first));
  }
};

// Buckets are cut at parameter bounds: as many parameters as fit into bucket_bytes, or an eighth of all gradients where
// that is less (or the ring would be as large as they are), at least one, and all whose gradients become final
// together. A bucket's places are free when the next one's gradients are final: where ranks meet before each sum, all
// have read them by then. Checks itself: an overlap is a bug and ends the program.
GradientRingPlan plan_gradient_ring(const Graph& graph, const ParameterLayout& layout, std::size_t bucket_bytes);

// For one rank that updates a bucket's parameters when their gradients are final. A bucket holds one parameter, or
// several whose gradients become final together. It is taken once no node reads them any more; its places are then
// free. The ring has room for the largest trained parameter without a gradient.
GradientRingPlan plan_update_ring(const Graph& graph, const ParameterLayout& layout);

// The range of gradients as a place for activations. A gradient's memory is its own from its first write on; before
// that, activations may lie there. Only where every replay writes gradients anew: with one micro-batch an update.

struct GradientSpace {
  std::size_t bytes = 0;          // of the range, and a line that is always taken: nothing reaches across its end
  std::vector<TakenPlace> taken;  // by offset: each gradient from its first write; all that no gradient writes, always
};

// Gradients have the places of their parameters. What is between them stays zero, as do those that are never written:
// the update reads them.
GradientSpace find_gradient_space(const Graph& graph, const ParameterLayout& layout);

}  // namespace bascule
