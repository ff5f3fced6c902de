// SPDX-License-Identifier: Apache-2.0
#include "src/data/token_table.h"

#include <algorithm>
#include <cstddef>

#include "src/base/check.h"

namespace bascule {

TokenTable TokenTable::make(const Manifest& manifest, const Tokenizer& tokenizer, std::int64_t max_length) {
  BASCULE_CHECK(max_length >= 2);
  TokenTable table;
  table.end_.reserve(static_cast<std::size_t>(manifest.rows()));
  std::vector<std::byte> memory(TokenizerScratch::bytes(manifest.longest_caption_bytes()));
  TokenizerScratch scratch{Span<std::byte>(memory)};
  std::vector<std::int32_t> ids(std::min(static_cast<std::size_t>(max_length), manifest.longest_caption_bytes() + 2));
  for (std::int64_t i = 0; i < manifest.rows(); ++i) {
    const std::string_view caption = manifest.row(i).caption;
    std::int64_t count = 0;
    // The manifest holds UTF-8 alone and the scratch was made for its longest caption.
    BASCULE_CHECK(tokenizer.encode_into(Span<const char>(caption.data(), caption.size()), ids, &count, scratch).ok());
    table.ids_.insert(table.ids_.end(), ids.begin(), ids.begin() + count);
    table.end_.push_back(table.ids_.size());
    table.longest_ = std::max(table.longest_, count);
  }
  table.ids_.shrink_to_fit();
  return table;
}

Span<const std::int32_t> TokenTable::row(std::int64_t row) const noexcept {
  BASCULE_DCHECK(row >= 0 && row < rows());
  const std::size_t i = static_cast<std::size_t>(row);
  const std::size_t begin = i == 0 ? 0 : end_[i - 1];
  return Span<const std::int32_t>(ids_.data() + begin, end_[i] - begin);
}

}  // namespace bascule
