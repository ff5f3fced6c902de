// SPDX-License-Identifier: Apache-2.0
#include "src/update/state_exchange.h"

#include <algorithm>

#include "src/distributed/nodes.h"

namespace bascule {
namespace {

constexpr Status kGone{StatusCode::kRankFailed, {-1, 0}};

}  // namespace

Status StateExchange::read(std::size_t state, std::int64_t first, std::int64_t count, float* destination) noexcept {
  const std::int64_t end = first + count;
  const StateShards& shards = states_.ranges[state].shards;
  while (first < end) {
    std::size_t b = shards.block_at(first);
    const StateShards::Block& block = shards.blocks[b];
    while (b + 1 < shards.blocks.size() && shards.blocks[b + 1].node == block.node && shards.blocks[b + 1].first < end)
      ++b;  // the same node's, next to it there too
    const std::int64_t part = std::min(end, shards.blocks[b].first + shards.blocks[b].count) - first;
    const Request request{static_cast<std::int64_t>(state), block.place + first - block.first, part};
    if (block.node == group_.node()) {
      std::copy_n(states_.ranges[state].values + request.place, part, destination);
    } else if (!group_.between_nodes()->send(&request, sizeof request, block.node) ||
               !group_.between_nodes()->receive(destination, static_cast<std::size_t>(part) * sizeof(float),
                                                block.node)) {
      return kGone;
    }
    first += part;
    destination += part;
  }
  return ok_status();
}

Status StateExchange::read_part(void* part, float* destination, std::int64_t first, std::int64_t count) noexcept {
  const Part& p = *static_cast<const Part*>(part);
  return p.exchange->read(p.state, p.first + first, count, destination);
}

Status StateExchange::finish() noexcept {
  const Request none;
  for (int node = 1; node < group_.nodes(); ++node) {
    if (!group_.between_nodes()->send(&none, sizeof none, node)) return kGone;
  }
  return ok_status();
}

Status StateExchange::serve() noexcept {
  for (;;) {
    Request request;
    if (!group_.between_nodes()->receive(&request, sizeof request, 0)) return kGone;
    if (request.count == 0) return ok_status();
    const float* const part = states_.ranges[static_cast<std::size_t>(request.state)].values + request.place;
    if (!group_.between_nodes()->send(part, static_cast<std::size_t>(request.count) * sizeof(float), 0)) return kGone;
  }
}

}  // namespace bascule
