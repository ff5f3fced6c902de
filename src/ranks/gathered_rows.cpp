// SPDX-License-Identifier: Apache-2.0
#include "src/ranks/gathered_rows.h"

#include <algorithm>

namespace bascule {

std::size_t GatheredRows::bytes(std::int64_t samples, std::int64_t width) {
  return static_cast<std::size_t>(Peers::kOperands * samples * width) * sizeof(float);
}

Peers GatheredRows::peers(const BatchCut& cut, std::int64_t index) noexcept {
  const SampleRange all = cut.batch(index);
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
  peers.gather = [](void* self, float* const* out, const float* const* rows, std::int64_t count,
                    std::int64_t) noexcept { static_cast<GatheredRows*>(self)->gather(out, rows, count); };
  peers.context = this;
  return peers;
}

// Nobody writes again before all of the node have read: the second barrier. Where a rank fails the rows are not whole,
// and the run is at its end.
void GatheredRows::gather(float* const* out, const float* const* rows, std::int64_t count) noexcept {
  float* const shared = static_cast<float*>(static_cast<void*>(memory_));
  const auto row_of = [&](std::int64_t sample, int operand) {
    return shared + (sample * Peers::kOperands + operand) * width_;
  };
  for (std::int64_t s = 0; s < count; ++s) {
    for (int i = 0; i < Peers::kOperands; ++i) std::copy_n(rows[i] + s * width_, width_, row_of(own_.begin + s, i));
  }
  if (!group_.gather_parts({memory_, bytes(samples_, width_)}, bytes(node_.begin, width_),
                           bytes(node_.begin + node_.count, width_)))
    return;
  for (std::int64_t s = 0; s < samples_ && count > 0; ++s) {
    for (int i = 0; i < Peers::kOperands; ++i) std::copy_n(row_of(s, i), width_, out[i] + s * width_);
  }
  if (!group_.local_barrier()) return;
}

}  // namespace bascule
