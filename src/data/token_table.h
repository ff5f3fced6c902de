// SPDX-License-Identifier: Apache-2.0
// All captions of a manifest as token ids, made once before the seal: a worker copies ids instead of tokenising, and
// the longest row bounds the packed text of a batch.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/span.h"
#include "src/data/manifest.h"
#include "src/data/tokenizer.h"

namespace bascule {

class TokenTable {
 public:
  // Every caption with <s> and </s>, cut to max_length (at least 2).
  static TokenTable make(const Manifest& manifest, const Tokenizer& tokenizer, std::int64_t max_length);

  // The ids of a row's caption. Allocates nothing.
  Span<const std::int32_t> row(std::int64_t row) const noexcept;
  std::int64_t rows() const noexcept { return static_cast<std::int64_t>(end_.size()); }
  // Tokens of the longest caption, with <s> and </s>.
  std::int64_t longest() const noexcept { return longest_; }

 private:
  std::vector<std::int32_t> ids_;   // all rows, end to end
  std::vector<std::uint64_t> end_;  // per row; a row begins where the one before ends
  std::int64_t longest_ = 0;
};

}  // namespace bascule
