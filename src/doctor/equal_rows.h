// SPDX-License-Identifier: Apache-2.0
// Rows of several splits that have the same content, told by 64-bit digests (XXH3): two different contents among a
// million have the same one with a chance of 3e-8. Memory: 8 bytes a row for its digest, which the caller keeps, and 16
// while groups are looked for.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace bascule {

// A row's digest stands at its number. kNoContent: the row has none, and is in no group.
using RowDigests = std::vector<std::uint64_t>;
inline constexpr std::uint64_t kNoContent = 0;

struct RowOfSplit {
  std::uint32_t split = 0, row = 0;
  bool operator<(const RowOfSplit& other) const { return split != other.split ? split < other.split : row < other.row; }
};

// The digest of two contents together; kNoContent where one of them is.
std::uint64_t digest_of_both(std::uint64_t first, std::uint64_t second) noexcept;

// Calls `see` for every group of two rows or more, ascending within; groups in the order of their digests. by_split: by
// the number of the split; at most 2^32 rows each.
using SeeGroup = std::function<void(const std::vector<RowOfSplit>& group)>;
void find_equal_rows(const std::vector<const RowDigests*>& by_split, const SeeGroup& see);

// The sizes of all groups of one split, single rows included; in no meaningful order.
std::vector<std::int64_t> group_sizes(RowDigests digests);

}  // namespace bascule
