// SPDX-License-Identifier: Apache-2.0
// The head of an answer as text, in memory of the caller's. No clock, so that an answer is the same every time.
#pragma once

#include <cstddef>
#include <string_view>

#include "src/base/span.h"
#include "src/http/http_server.h"

namespace bascule {

constexpr std::size_t kAnswerHeadBytes = 2048;
// The most that a caller adds of its own, in one answer and in all (HttpAnswer and HttpSettings::headers).
constexpr std::size_t kMostAddedBytes = 512;

// What a connection adds to an answer's headers.
struct AnswerConnection {
  std::string_view standing_headers;  // HttpSettings::headers
  std::string_view allowed_origin;    // "": the answer is for no other site
  bool closes = false, says_keep_alive = false;
};

// Returns its length. The digest in it is of answer.body.
std::size_t write_answer_head(Span<char> out, const HttpAnswer& answer, const AnswerConnection& connection) noexcept;

}  // namespace bascule
