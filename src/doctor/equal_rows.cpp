// SPDX-License-Identifier: Apache-2.0
#include "src/doctor/equal_rows.h"

#include <algorithm>

#include "src/base/digest.h"

namespace bascule {
namespace {

struct Key {
  std::uint64_t digest;
  RowOfSplit row;
};
static_assert(sizeof(Key) == 16);

}  // namespace

std::uint64_t digest_of_both(std::uint64_t first, std::uint64_t second) noexcept {
  if (first == kNoContent || second == kNoContent) return kNoContent;
  const std::uint64_t both[] = {first, second};
  return std::max<std::uint64_t>(1, digest_of(both, sizeof both));
}

void find_equal_rows(const std::vector<const RowDigests*>& by_split, const SeeGroup& see) {
  std::size_t rows = 0;
  for (const RowDigests* digests : by_split) rows += digests->size();
  std::vector<Key> keys;
  keys.reserve(rows);
  for (std::size_t split = 0; split < by_split.size(); ++split) {
    for (std::size_t row = 0; row < by_split[split]->size(); ++row) {
      const std::uint64_t digest = (*by_split[split])[row];
      if (digest != kNoContent)
        keys.push_back({digest, {static_cast<std::uint32_t>(split), static_cast<std::uint32_t>(row)}});
    }
  }
  std::sort(keys.begin(), keys.end(),
            [](const Key& a, const Key& b) { return a.digest != b.digest ? a.digest < b.digest : a.row < b.row; });
  std::vector<RowOfSplit> group;
  for (std::size_t first = 0, end = 0; first < keys.size(); first = end) {
    while (end < keys.size() && keys[end].digest == keys[first].digest) ++end;
    if (end - first < 2) continue;
    group.clear();
    for (std::size_t i = first; i < end; ++i) group.push_back(keys[i].row);
    see(group);
  }
}

std::vector<std::int64_t> group_sizes(RowDigests digests) {
  std::sort(digests.begin(), digests.end());
  std::vector<std::int64_t> sizes;
  for (std::size_t first = 0, end = 0; first < digests.size(); first = end) {
    while (end < digests.size() && digests[end] == digests[first] && (end == first || digests[first] != kNoContent))
      ++end;
    sizes.push_back(static_cast<std::int64_t>(end - first));
  }
  return sizes;
}

}  // namespace bascule
