// SPDX-License-Identifier: Apache-2.0
#include "src/replay/batch_weights.h"

#include <algorithm>

namespace bascule {

void BatchWeights::begin(const RowsByTerm& units) noexcept {
  for (std::size_t t = 0; t < terms_; ++t) {
    counted_[t] = 0.0;
    unit_[t] = std::max(units[t], 1.0);
  }
}

void BatchWeights::count(const RowsByTerm& own, const RowsByTerm& all) noexcept {
  for (std::size_t t = 0; t < terms_; ++t) {
    counted_[t] += all[t];
    share_[t] = own[t] < all[t] ? own[t] / all[t] : 1.0;
    of_all_[t] = all[t] / unit_[t];
  }
}

}  // namespace bascule
