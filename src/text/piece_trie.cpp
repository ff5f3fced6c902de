// SPDX-License-Identifier: Apache-2.0
#include "src/text/piece_trie.h"

#include <algorithm>

namespace bascule {

PieceTrie::PieceTrie(std::vector<std::pair<std::string, std::int32_t>> pieces) {
  std::stable_sort(pieces.begin(), pieces.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  // A node, and the pieces that begin with it: node by node, each one's children are put behind all nodes so far.
  struct Open {
    std::size_t node, depth, begin, end;
  };
  std::vector<Open> open = {{0, 0, 0, pieces.size()}};
  for (std::size_t next = 0; next < open.size(); ++next) {
    Open at = open[next];
    for (; at.begin < at.end && pieces[at.begin].first.size() == at.depth; ++at.begin)
      if (at.depth > 0) nodes_[at.node].id = pieces[at.begin].second;
    longest_ = std::max(longest_, at.depth);
    nodes_[at.node].children = static_cast<std::uint32_t>(nodes_.size());
    while (at.begin < at.end) {
      const char byte = pieces[at.begin].first[at.depth];
      std::size_t end = at.begin;
      while (end < at.end && pieces[end].first[at.depth] == byte) ++end;
      Node child;
      child.byte = static_cast<std::uint8_t>(byte);
      open.push_back({nodes_.size(), at.depth + 1, at.begin, end});
      if (at.depth == 0) first_[child.byte] = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back(child);
      ++nodes_[at.node].count;
      at.begin = end;
    }
  }
}

}  // namespace bascule
