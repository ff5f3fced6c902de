// SPDX-License-Identifier: Apache-2.0
#include "src/train/gathered_rows.h"

#include <algorithm>

namespace bascule {

std::size_t GatheredRows::bytes(std::int64_t samples, std::int64_t width) {
  return static_cast<std::size_t>(Peers::kOperands * samples * width) * sizeof(float);
}

Peers GatheredRows::peers(std::int64_t first, std::int64_t samples) noexcept {
  first_ = first;
  samples_ = samples;
  Peers peers;
  peers.first = first;
  peers.samples = samples;
  peers.gather = [](void* self, float* const* out, const float* const* rows, std::int64_t count,
                    std::int64_t width) noexcept { static_cast<GatheredRows*>(self)->gather(out, rows, count, width); };
  peers.context = this;
  return peers;
}

// Nobody writes again before all have read: the second barrier. Where a rank fails the rows are not whole, and the run
// is at its end.
void GatheredRows::gather(float* const* out, const float* const* rows, std::int64_t count,
                          std::int64_t width) noexcept {
  float* const shared = static_cast<float*>(static_cast<void*>(memory_));
  const std::int64_t all = samples_ * width;
  for (int i = 0; i < Peers::kOperands && count > 0; ++i)
    std::copy_n(rows[i], count * width, shared + i * all + first_ * width);
  if (!group_.barrier()) return;
  for (int i = 0; i < Peers::kOperands && count > 0; ++i) std::copy_n(shared + i * all, all, out[i]);
  if (!group_.barrier()) return;
}

}  // namespace bascule
