// SPDX-License-Identifier: Apache-2.0
// Token ids to text, as Transformers' decode() with skip_special_tokens=True gives it. Allocates.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/span.h"

namespace bascule {

class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  TokenDecoder(const TokenDecoder&) = delete;
  TokenDecoder& operator=(const TokenDecoder&) = delete;

  // Special tokens, and ids that no token has, are left out.
  virtual std::string decode(Span<const std::int32_t> ids) const = 0;

 protected:
  TokenDecoder() = default;
};

}  // namespace bascule
