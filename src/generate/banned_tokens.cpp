// SPDX-License-Identifier: Apache-2.0
#include "src/generate/banned_tokens.h"

#include <algorithm>

namespace bascule {

std::int64_t list_banned_tokens(std::int32_t* banned, Span<const std::int32_t> ids,
                                const SearchOptions& options) noexcept {
  std::int64_t count = 0;
  const auto length = static_cast<std::int64_t>(ids.size());
  const std::int64_t ngram = options.no_repeat_ngram_size;
  if (ngram > 0 && length >= ngram) {
    // The last n - 1 ids, of which there are none where n is 1: then every id is banned.
    const std::int32_t* const last = ids.end() - (ngram - 1);
    for (const std::int32_t* place = ids.begin(); place + ngram <= ids.end(); ++place) {
      if (std::equal(last, ids.end(), place)) banned[count++] = place[ngram - 1];
    }
  }
  if (length < options.min_length) {
    for (const std::int32_t end : options.end_ids) banned[count++] = end;
  }
  return count;
}

}  // namespace bascule
