// SPDX-License-Identifier: Apache-2.0
#include "src/plan/place.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace bascule {
namespace {

using Order = std::vector<std::size_t>;

// Largest key first. Where keys are equal the requests themselves decide, so that the order in which they are given
// does not.
template <typename Key>
Order order_by(Span<const BufferRequest> requests, Key key) {
  Order order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto rank = [&](std::size_t i) {
    return std::make_tuple(-key(requests[i]), -static_cast<double>(requests[i].bytes), requests[i].first,
                           requests[i].last);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
  return order;
}

double length(const BufferRequest& r) { return static_cast<double>(r.last - r.first + 1); }

// Given up, with the peak that it has by then, where the arena becomes as large as `limit`.
Placement place_in_order(Span<const BufferRequest> requests, Span<const TakenPlace> taken, const Order& order,
                         std::size_t limit) {
  struct Place {
    std::size_t offset, end;
    int first, last;
  };
  Placement placement;
  placement.offsets.assign(requests.size(), 0);
  std::vector<Place> placed;  // by offset
  placed.reserve(requests.size() + taken.size());
  for (const TakenPlace& place : taken) {
    const std::size_t end = place.offset + place.request.bytes;
    placed.push_back({place.offset, end, place.request.first, place.request.last});
    placement.peak_bytes = std::max(placement.peak_bytes, end);
  }
  for (const std::size_t i : order) {
    const BufferRequest& request = requests[i];
    if (request.bytes == 0) continue;
    std::size_t offset = 0;
    for (const Place& other : placed) {
      if (other.last < request.first || request.last < other.first) continue;
      if (offset + request.bytes <= other.offset) break;
      offset = std::max(offset, align_up(other.end, kCacheLine));
    }
    placement.offsets[i] = offset;
    placement.peak_bytes = std::max(placement.peak_bytes, offset + request.bytes);
    if (placement.peak_bytes >= limit) return placement;
    const auto behind = std::upper_bound(placed.begin(), placed.end(), offset,
                                         [](std::size_t value, const Place& other) { return value < other.offset; });
    placed.insert(behind, {offset, offset + request.bytes, request.first, request.last});
  }
  return placement;
}

}  // namespace

Placement place_buffers(Span<const BufferRequest> requests, Span<const TakenPlace> taken) {
  std::vector<Order> orders = {
      order_by(requests, [](const BufferRequest& r) { return static_cast<double>(r.bytes); }),
      order_by(requests, [](const BufferRequest& r) { return static_cast<double>(r.bytes) * length(r); }),
      order_by(requests, [](const BufferRequest& r) { return length(r) * 1e12 + static_cast<double>(r.bytes); }),
      order_by(requests, [](const BufferRequest& r) { return -static_cast<double>(r.first); }),
      order_by(requests, [](const BufferRequest& r) { return static_cast<double>(r.last); }),
  };
  // Places that are taken from some time on are best used by what is needed no longer than until then. First, as the
  // others are given up where they are no better.
  if (!taken.empty())
    orders.insert(orders.begin(),
                  order_by(requests, [](const BufferRequest& r) { return -static_cast<double>(r.last); }));
  Placement best;
  std::size_t limit = std::numeric_limits<std::size_t>::max();
  for (const Order& order : orders) {
    Placement placement = place_in_order(requests, taken, order, limit);
    if (placement.peak_bytes >= limit) continue;
    limit = placement.peak_bytes;
    best = std::move(placement);
  }
  return best;
}

std::size_t lower_bound_bytes(Span<const BufferRequest> requests, Span<const TakenPlace> taken) {
  std::vector<std::pair<int, long long>> changes;  // (time, bytes); an end takes effect before a start at the same time
  const auto add = [&](const BufferRequest& request) {
    changes.emplace_back(request.first, static_cast<long long>(request.bytes));
    changes.emplace_back(request.last + 1, -static_cast<long long>(request.bytes));
  };
  for (const BufferRequest& request : requests) add(request);
  for (const TakenPlace& place : taken) add(place.request);
  std::sort(changes.begin(), changes.end());
  long long alive = 0, most = 0;
  for (const auto& change : changes) {
    alive += change.second;
    most = std::max(most, alive);
  }
  return static_cast<std::size_t>(most);
}

std::optional<std::pair<std::size_t, std::size_t>> first_overlap(Span<const BufferRequest> requests,
                                                                 const Placement& placement,
                                                                 Span<const TakenPlace> taken) {
  const auto request_of = [&](std::size_t i) {
    return i < requests.size() ? requests[i] : taken[i - requests.size()].request;
  };
  const auto begin_of = [&](std::size_t i) {
    return i < requests.size() ? placement.offsets[i] : taken[i - requests.size()].offset;
  };
  Order by_place(requests.size() + taken.size());
  std::iota(by_place.begin(), by_place.end(), std::size_t{0});
  std::sort(by_place.begin(), by_place.end(), [&](std::size_t a, std::size_t b) { return begin_of(a) < begin_of(b); });
  for (std::size_t i = 0; i < by_place.size(); ++i) {
    const std::size_t a = by_place[i];
    const BufferRequest one = request_of(a);
    if (one.bytes == 0) continue;
    const std::size_t a_begin = begin_of(a), a_end = a_begin + one.bytes;
    if (a_end > placement.peak_bytes) return std::make_pair(a, a);
    // Only those that begin before it ends can meet it: they come next.
    for (std::size_t j = i + 1; j < by_place.size(); ++j) {
      const std::size_t b = by_place[j], b_begin = begin_of(b);
      if (b_begin >= a_end) break;
      const BufferRequest other = request_of(b);
      const std::size_t b_end = b_begin + other.bytes;
      const bool in_time = other.bytes > 0 && one.first <= other.last && other.first <= one.last;
      if (in_time && a_begin < b_end && b_begin < a_end) return std::make_pair(std::min(a, b), std::max(a, b));
    }
  }
  return std::nullopt;
}

}  // namespace bascule
