// SPDX-License-Identifier: Apache-2.0
#include "src/generate/generated_rows.h"

#include <algorithm>

#include "src/base/align.h"

namespace bascule {
namespace {

std::size_t bytes_of_words(std::int64_t count) {
  return align_up(static_cast<std::size_t>(count) * sizeof(std::int32_t), kCacheLine);
}

}  // namespace

std::size_t GeneratedRows::bytes() const noexcept {
  return bytes_of_words(samples_ * most_ids_) + 2 * bytes_of_words(samples_);
}

void GeneratedRows::seal(std::byte* memory) noexcept {
  ids_ = static_cast<std::int32_t*>(static_cast<void*>(memory));
  memory += bytes_of_words(samples_ * most_ids_);
  counts_ = static_cast<std::int32_t*>(static_cast<void*>(memory));
  scores_ = static_cast<float*>(static_cast<void*>(memory + bytes_of_words(samples_)));
  clear();
}

void GeneratedRows::take(const TokenSearch& search, std::int64_t samples) noexcept {
  for (std::int64_t s = 0; s < samples; ++s) {
    const Span<const std::int32_t> ids = search.generated(s);
    std::copy(ids.begin(), ids.end(), ids_ + s * most_ids_);
    counts_[s] = static_cast<std::int32_t>(ids.size());
    scores_[s] = search.score(s);
  }
}

void GeneratedRows::clear() noexcept {
  std::fill_n(counts_, samples_, -1);
  std::fill_n(scores_, samples_, 0.0f);
}

}  // namespace bascule
