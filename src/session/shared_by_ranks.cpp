// SPDX-License-Identifier: Apache-2.0
#include "src/session/shared_by_ranks.h"

#include <algorithm>

namespace bascule {

std::size_t GatheredRows::bytes(std::int64_t samples, std::int64_t cols) {
  return static_cast<std::size_t>(samples * cols) * sizeof(float);
}

Peers GatheredRows::peers(const BatchCut& cut, SampleRange all) noexcept {
  const auto share_of = [&](int rank) {
    const SampleRange share = cut.share(all, rank);
    return SampleRange{share.begin - all.begin, share.count};
  };
  own_ = share_of(group_.rank());
  const int first_rank = group_.node() * group_.local_size();
  const SampleRange first = share_of(first_rank), last = share_of(first_rank + group_.local_size() - 1);
  node_ = {first.begin, last.begin + last.count - first.begin};
  samples_ = all.count;
  Peers peers;
  peers.first = own_.begin;
  peers.gather = [](void* self, float* const* out, const float* const* rows, int operands, std::int64_t count,
                    std::int64_t width) noexcept {
    static_cast<GatheredRows*>(self)->gather(out, rows, operands, count, width);
  };
  peers.context = this;
  return peers;
}

// Nobody writes again before all of the node have read: the second barrier. Where a rank fails the rows are not whole,
// and the run is at its end.
void GatheredRows::gather(float* const* out, const float* const* rows, int operands, std::int64_t count,
                          std::int64_t width) noexcept {
  float* const shared = static_cast<float*>(static_cast<void*>(memory_));
  const auto row_of = [&](std::int64_t sample, int operand) { return shared + sample * cols_ + operand * width; };
  for (std::int64_t s = 0; s < count; ++s) {
    for (int i = 0; i < operands; ++i) std::copy_n(rows[i] + s * width, width, row_of(own_.begin + s, i));
  }
  if (!group_.gather_parts({memory_, bytes(samples_, cols_)}, bytes(node_.begin, cols_),
                           bytes(node_.begin + node_.count, cols_)))
    return;
  for (std::int64_t s = 0; s < samples_ && count > 0; ++s) {
    for (int i = 0; i < operands; ++i) std::copy_n(row_of(s, i), width, out[i] + s * width);
  }
  if (!group_.local_barrier()) return;
}

namespace {

std::size_t list_bytes(std::size_t most) {
  return align_up(2 * sizeof(std::int64_t) + most * sizeof(ReplacedSample), kCacheLine);
}

bool comes_before(const ReplacedSample& a, const ReplacedSample& b) noexcept {
  return a.epoch != b.epoch ? a.epoch < b.epoch : a.position < b.position;
}

}  // namespace

std::size_t ReplacedSamples::bytes(int ranks, std::int64_t most) {
  return static_cast<std::size_t>(ranks) * list_bytes(static_cast<std::size_t>(most));
}

ReplacedSamples::ReplacedSamples(Group& group, std::int64_t most, std::byte* memory)
    : group_(group),
      most_(static_cast<std::size_t>(most)),
      memory_(memory),
      taken_(static_cast<std::size_t>(group.size())),
      merged_(most_) {}

ReplacedSamples::List& ReplacedSamples::list(int rank) const noexcept {
  return *static_cast<List*>(static_cast<void*>(memory_ + static_cast<std::size_t>(rank) * list_bytes(most_)));
}

bool ReplacedSamples::gather(const Stream& stream) noexcept {
  const Span<const ReplacedSample> own = stream.replacements();
  List& mine = list(group_.rank());
  const std::size_t count = std::min(own.size(), most_);
  mine.bad_samples = stream.statistics().bad_samples;
  mine.count = static_cast<std::int64_t>(count);
  std::copy_n(own.begin(), count, mine.samples);
  const std::size_t of_node = bytes(group_.local_size(), static_cast<std::int64_t>(most_));
  const std::size_t begin = static_cast<std::size_t>(group_.node()) * of_node;
  return group_.gather_parts({memory_, bytes(group_.size(), static_cast<std::int64_t>(most_))}, begin, begin + of_node);
}

std::int64_t ReplacedSamples::bad_samples() const noexcept {
  std::int64_t sum = 0;
  for (int rank = 0; rank < group_.size(); ++rank) sum += list(rank).bad_samples;
  return sum;
}

Span<const ReplacedSample> ReplacedSamples::merge() noexcept {
  std::fill(taken_.begin(), taken_.end(), 0);
  std::size_t count = 0;
  for (; count < most_; ++count) {
    int next = -1;
    for (int rank = 0; rank < group_.size(); ++rank) {
      const std::size_t at = taken_[static_cast<std::size_t>(rank)];
      if (at >= static_cast<std::size_t>(list(rank).count)) continue;
      if (next >= 0 &&
          !comes_before(list(rank).samples[at], list(next).samples[taken_[static_cast<std::size_t>(next)]]))
        continue;
      next = rank;
    }
    if (next < 0) break;
    merged_[count] = list(next).samples[taken_[static_cast<std::size_t>(next)]++];
  }
  return Span<const ReplacedSample>(merged_.data(), count);
}

}  // namespace bascule
