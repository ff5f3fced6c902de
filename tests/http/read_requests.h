// SPDX-License-Identifier: Apache-2.0
// What a RequestReader makes of bytes that arrive in given parts: a line for each request, then how it ends.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/digest.h"
#include "src/http/request_reader.h"

namespace bascule::test {

constexpr std::size_t kBodyLimit = 40000;  // more than fits behind a head

inline std::string line_of(const RequestReader& reader) {
  const RequestHead& head = reader.head();
  constexpr const char* kMethods[] = {"GET", "POST", "HEAD", "OPTIONS", "other"};
  const Span<char> body = reader.body();
  std::string text = std::string(kMethods[static_cast<int>(head.method)]) + ' ' + std::string(head.path);
  if (!head.query.empty()) text += '?' + std::string(head.query);
  if (head.expects_continue) text += " expects";
  text += head.keep_alive ? "" : " closes";
  if (body.size() > 64)
    text += " [" + std::to_string(body.size()) + " bytes, " + std::to_string(digest_of(body.data(), body.size())) + "]";
  else if (!body.empty())
    text += " [" + std::string(body.data(), body.size()) + "]";
  return text + '\n';
}

// parts: the sizes that arrive, the last again and again. The end is "" where a request is whole, "waits" within one,
// or a status.
template <typename NextPart>
std::string read_requests(std::string_view bytes, NextPart&& next_part) {
  static std::vector<char> memory(kReaderBytes), room(kBodyLimit);  // made once: fuzzing spends its time elsewhere
  RequestReader reader;
  reader.attach(memory.data());
  reader.reset();
  std::string seen;
  ReadState state = ReadState::kHead;
  for (;;) {
    if (state == ReadState::kHeadRead) {
      const RequestHead& head = reader.head();
      if (head.content_length > kBodyLimit) return seen + "413";
      state =
          reader.read_body(reader.fits_behind_head() ? Span<char>() : Span<char>(room.data(), room.size()), kBodyLimit);
    } else if (state == ReadState::kWhole) {
      seen += line_of(reader);
      state = reader.next();
    } else if (state == ReadState::kRefused) {
      return seen + std::to_string(reader.refusal());
    } else {
      if (bytes.empty()) return seen + (reader.has_begun() ? "waits" : "");
      const Span<char> space = reader.space();
      const std::size_t count =
          std::min({bytes.size(), space.size(), std::max<std::size_t>(1, static_cast<std::size_t>(next_part()))});
      std::memcpy(space.data(), bytes.data(), count);
      bytes.remove_prefix(count);
      state = reader.take(count);
    }
  }
}

inline std::string read_whole(std::string_view bytes) {
  return read_requests(bytes, [] { return kReaderBytes; });
}

}  // namespace bascule::test
