// SPDX-License-Identifier: Apache-2.0
#include "src/doctor/equal_rows.h"

#include <algorithm>

#include "src/base/digest.h"
#include "src/doctor/finding.h"

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

namespace {

// The examples whose first row comes first are kept.
bool comes_before(const std::pair<RowOfSplit, RowOfSplit>& a, const std::pair<RowOfSplit, RowOfSplit>& b) {
  return a.first < b.first;
}

}  // namespace

EqualContentCounter::EqualContentCounter(std::size_t splits, std::size_t most)
    : splits_(splits), most_(most), cells_(splits * splits) {
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    cells_[i].of = i / splits;
    cells_[i].in = i % splits;
  }
}

void EqualContentCounter::add(RowOfSplit row, RowOfSplit other) {
  SharedRows& cell = cells_[row.split * splits_ + other.split];
  ++cell.rows;
  add_one(&cell.examples, {row, other}, most_, comes_before);
}

void EqualContentCounter::add(const std::vector<RowOfSplit>& group) {
  std::vector<RowOfSplit> firsts;  // of each split so far
  for (const RowOfSplit& row : group) {
    const bool is_first = firsts.empty() || firsts.back().split != row.split;
    if (is_first) firsts.push_back(row);
    for (const RowOfSplit& first : firsts) {
      if (is_first && first.split == row.split) continue;
      add(row, first);
    }
  }
}

EqualContent EqualContentCounter::content() const {
  EqualContent content;
  for (const SharedRows& cell : cells_) {
    if (cell.rows == 0) continue;
    std::vector<SharedRows>& cells = cell.of == cell.in ? content.repeated : content.shared;
    cells.push_back(cell);
    keep_first(&cells.back().examples, most_, comes_before);
  }
  return content;
}

EqualContent equal_content(const std::vector<const RowDigests*>& by_split, std::size_t most) {
  EqualContentCounter counter(by_split.size(), most);
  find_equal_rows(by_split, [&](const std::vector<RowOfSplit>& group) { counter.add(group); });
  return counter.content();
}

}  // namespace bascule
