// SPDX-License-Identifier: Apache-2.0
// Token ids to text, as Transformers' decode() with skip_special_tokens=True gives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "src/base/span.h"

namespace bascule {

class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  TokenDecoder(const TokenDecoder&) = delete;
  TokenDecoder& operator=(const TokenDecoder&) = delete;

  // Special tokens, and ids that no token has, are left out. Returns the text's bytes, of which those that fit are
  // written. Allocates nothing, so it may be used after the seal.
  virtual std::size_t decode_into(Span<const std::int32_t> ids, Span<char> text) const noexcept = 0;
  // The most that one token may add to a text.
  std::size_t most_bytes_of_token() const noexcept { return most_bytes_of_token_; }

  // Allocates.
  std::string decode(Span<const std::int32_t> ids) const {
    std::string text(ids.size() * most_bytes_of_token_, '\0');
    text.resize(decode_into(ids, {text.data(), text.size()}));
    return text;
  }

 protected:
  explicit TokenDecoder(std::size_t most_bytes_of_token) : most_bytes_of_token_(most_bytes_of_token) {}

 private:
  const std::size_t most_bytes_of_token_;
};

}  // namespace bascule
