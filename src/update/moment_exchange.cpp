// SPDX-License-Identifier: Apache-2.0
#include "src/update/moment_exchange.h"

#include <algorithm>

#include "src/distributed/nodes.h"

namespace bascule {
namespace {

constexpr Status kGone{StatusCode::kRankFailed, {-1, 0}};

}  // namespace

Status MomentExchange::read(int moment, std::int64_t first, std::int64_t count, float* destination) noexcept {
  const std::int64_t end = first + count;
  while (first < end) {
    std::size_t b = shards_.block_at(first);
    const MomentShards::Block& block = shards_.blocks[b];
    while (b + 1 < shards_.blocks.size() && shards_.blocks[b + 1].node == block.node &&
           shards_.blocks[b + 1].offset < end)
      ++b;  // the same node's, next to it there too
    const std::int64_t part = std::min(end, shards_.blocks[b].offset + shards_.blocks[b].count) - first;
    const Request request{moment, block.place + first - block.offset, part};
    if (block.node == group_.node()) {
      std::copy_n(moments_[moment] + request.place, part, destination);
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

Status MomentExchange::read_part(void* part, float* destination, std::int64_t first, std::int64_t count) noexcept {
  const Part& p = *static_cast<const Part*>(part);
  return p.exchange->read(p.moment, p.first + first, count, destination);
}

Status MomentExchange::finish() noexcept {
  const Request none;
  for (int node = 1; node < group_.nodes(); ++node) {
    if (!group_.between_nodes()->send(&none, sizeof none, node)) return kGone;
  }
  return ok_status();
}

Status MomentExchange::serve() noexcept {
  for (;;) {
    Request request;
    if (!group_.between_nodes()->receive(&request, sizeof request, 0)) return kGone;
    if (request.count == 0) return ok_status();
    const float* const part = moments_[request.moment] + request.place;
    if (!group_.between_nodes()->send(part, static_cast<std::size_t>(request.count) * sizeof(float), 0)) return kGone;
  }
}

}  // namespace bascule
