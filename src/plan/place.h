// SPDX-License-Identifier: Apache-2.0
// Placing buffers of known lifetimes in one arena. A plan is a value: pure functions from requests to offsets.
//
// The algorithm (first fit, several orders):
//   * take the requests in an order (by size; by size x lifetime; by lifetime; by start; by end) and give each the
//   lowest
//     offset at which it meets no buffer that is alive at the same time;
//   * do so for every order and keep the smallest arena. Ties go to the earlier order, so the result does not depend
//     on luck.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/span.h"

namespace bascule {

// Alive from `first` to `last`, both included. Bytes may be 0.
struct BufferRequest {
  std::size_t bytes = 0;
  int first = 0, last = 0;
};

struct Placement {
  std::vector<std::size_t> offsets;  // by request; multiples of 64
  std::size_t peak_bytes = 0;
};

// A stretch of the arena that something else has for a while: no buffer may meet it in time and place.
struct TakenPlace {
  BufferRequest request;
  std::size_t offset = 0;  // a multiple of 64
};

// taken: in the order of their offsets, not meeting each other.
Placement place_buffers(Span<const BufferRequest> requests, Span<const TakenPlace> taken = {});

// The largest sum of buffers alive at one time: no placement can be smaller.
std::size_t lower_bound_bytes(Span<const BufferRequest> requests, Span<const TakenPlace> taken = {});

// Two requests that overlap in time and place, or one that leaves the arena (paired with itself); none if the placement
// is right. Taken places are numbered on behind the requests. Shares no code with place_buffers().
std::optional<std::pair<std::size_t, std::size_t>> first_overlap(Span<const BufferRequest> requests,
                                                                 const Placement& placement,
                                                                 Span<const TakenPlace> taken = {});

}  // namespace bascule
