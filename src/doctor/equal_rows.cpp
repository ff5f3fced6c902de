// SPDX-License-Identifier: Apache-2.0
#include "src/doctor/equal_rows.h"

#include <algorithm>

#include "src/base/digest.h"
#include "src/base/elementary.h"

namespace bascule {
namespace {

struct Key {
  std::uint64_t digest;
  RowOfSplit row;
};
static_assert(sizeof(Key) == 16);

// The examples whose first row comes first are kept.
bool comes_before(const std::pair<RowOfSplit, RowOfSplit>& a, const std::pair<RowOfSplit, RowOfSplit>& b) {
  return a.first < b.first;
}

double pairs_of(std::int64_t rows) { return 0.5 * static_cast<double>(rows) * static_cast<double>(rows - 1); }

// Chances of X = 0, 1, ... among `partners` of a row: sequential, so that no factorial is needed. Each further partner
// is drawn or not; chances below 1e-300 stay 0.
class Companions {
 public:
  Companions(std::int64_t rows, std::int64_t batch) : rows_(rows - 1), drawn_(batch - 1) {}

  // P(X = 0) for `partners`.
  double none(std::int64_t partners) const {
    double chance = 1.0;
    for (std::int64_t i = 0; i < partners && chance > 0.0; ++i)
      chance *= static_cast<double>(std::max<std::int64_t>(0, rows_ - drawn_ - i)) / static_cast<double>(rows_ - i);
    return chance;
  }

  // E ln(1 + X).
  double mean_log(std::int64_t partners) const {
    if (partners == 0 || drawn_ <= 0) return 0.0;
    // From the likeliest count outwards, by the ratio of neighbouring chances; normalised by their sum.
    const std::int64_t least = std::max<std::int64_t>(0, drawn_ - (rows_ - partners));
    const std::int64_t most = std::min(partners, drawn_);
    const std::int64_t middle =
        std::clamp(static_cast<std::int64_t>(static_cast<double>(drawn_ + 1) * static_cast<double>(partners + 1) /
                                             static_cast<double>(rows_ + 2)),
                   least, most);
    double all = 1.0, sum = log_of(middle);
    double chance = 1.0;
    for (std::int64_t x = middle; x < most && chance > kLeast; ++x)
      add(chance *= ratio(x, partners), x + 1, &all, &sum);
    chance = 1.0;
    for (std::int64_t x = middle; x > least && chance > kLeast; --x)
      add(chance /= ratio(x - 1, partners), x - 1, &all, &sum);
    return sum / all;
  }

 private:
  static constexpr double kLeast = 1e-18;

  static double log_of(std::int64_t x) { return fixed_log(1.0 + static_cast<double>(x)); }
  static void add(double chance, std::int64_t x, double* all, double* sum) {
    *all += chance;
    *sum += chance * log_of(x);
  }
  // P(x + 1) / P(x)
  double ratio(std::int64_t x, std::int64_t partners) const {
    return static_cast<double>(partners - x) * static_cast<double>(drawn_ - x) /
           (static_cast<double>(x + 1) * static_cast<double>(rows_ - partners - drawn_ + x + 1));
  }

  std::int64_t rows_, drawn_;
};

// By size: how many groups have it.
using Sizes = std::map<std::int64_t, std::int64_t>;

// sum over rows of h(n).
double sum_of_logs(const Sizes& sizes, const Companions& companions) {
  double sum = 0.0;
  for (const auto& [size, groups] : sizes) sum += static_cast<double>(groups * size) * companions.mean_log(size - 1);
  return sum;
}

double sum_of_pairs(const Sizes& sizes) {
  double sum = 0.0;
  for (const auto& [size, groups] : sizes) sum += static_cast<double>(groups) * pairs_of(size);
  return sum;
}

// A row's partners: of its caption, of its picture, less those that are both.
std::vector<std::int64_t> size_of_each(const RowDigests& digests) {
  std::vector<std::int64_t> sizes(digests.size(), 1);
  find_equal_rows({&digests}, [&](const std::vector<RowOfSplit>& group) {
    for (const RowOfSplit& row : group) sizes[row.row] = static_cast<std::int64_t>(group.size());
  });
  return sizes;
}

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

std::map<std::int64_t, std::int64_t> group_sizes(const RowDigests& digests) {
  std::map<std::int64_t, std::int64_t> sizes;
  std::int64_t single = static_cast<std::int64_t>(digests.size());
  find_equal_rows({&digests}, [&](const std::vector<RowOfSplit>& group) {
    ++sizes[static_cast<std::int64_t>(group.size())];
    single -= static_cast<std::int64_t>(group.size());
  });
  if (single > 0) sizes[1] = single;
  return sizes;
}

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

BatchFigures batch_figures(const RowDigests& captions, const RowDigests& pictures, std::int64_t batch) {
  BatchFigures figures;
  figures.rows = static_cast<std::int64_t>(captions.size());
  figures.batch = std::min(batch, figures.rows);
  if (figures.batch < 2) return figures;
  const Companions companions(figures.rows, figures.batch);
  RowDigests both(captions.size());
  for (std::size_t row = 0; row < captions.size(); ++row) both[row] = digest_of_both(captions[row], pictures[row]);
  const Sizes of_captions = group_sizes(captions), of_pictures = group_sizes(pictures), of_both = group_sizes(both);
  const double rows = static_cast<double>(figures.rows), drawn = static_cast<double>(figures.batch);
  figures.loss_floor = (2.0 * sum_of_logs(of_captions, companions) + 2.0 * sum_of_logs(of_pictures, companions) -
                        sum_of_logs(of_both, companions)) /
                       (3.0 * rows);
  figures.equal_pairs = (sum_of_pairs(of_captions) + sum_of_pairs(of_pictures) - sum_of_pairs(of_both)) *
                        (drawn / rows) * ((drawn - 1.0) / (rows - 1.0));
  std::map<std::int64_t, std::int64_t> rows_with_partners;
  {
    std::vector<std::int64_t> partners = size_of_each(captions);
    const std::vector<std::int64_t> with_picture = size_of_each(pictures), with_both = size_of_each(both);
    for (std::size_t row = 0; row < partners.size(); ++row)
      ++rows_with_partners[partners[row] + with_picture[row] - with_both[row] - 1];
  }
  for (const auto& [partners, count] : rows_with_partners)
    figures.rows_in_pairs += static_cast<double>(count) * (1.0 - companions.none(partners));
  figures.rows_in_pairs *= drawn / rows;
  return figures;
}

}  // namespace bascule
