// SPDX-License-Identifier: Apache-2.0
// RequestReader: bytes of a connection in, in any cut; requests out, the same ones. Boost.Beast's parser with the
// checks that it lacks. No socket, no clock, no allocation.
//
//   reader.attach(memory);                               // kReaderBytes
//   for (;;) {
//     const Span<char> space = reader.space();           // read(2) into it
//     switch (reader.take(bytes)) {                      // so many came
//       case kHead: case kBody: continue;                // more bytes are needed
//       case kHeadRead: reader.read_body(room, limit);   // whoever asks is allowed to: now its body
//       case kWhole: ...; reader.next();                 // head() and body() are the request
//       case kRefused: ...                               // refusal(): the connection cannot go on
//     }
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/base/span.h"
#include "src/http/http_server.h"

namespace bascule {

// The memory of a reader: a head, and a body that fits behind it.
constexpr std::size_t kReaderBytes = 16384, kMostHeadBytes = 8192;
constexpr int kMostHeadLines = 100;

class HeadParser;

// Views into the reader's memory, until next().
struct RequestHead {
  HttpMethod method = HttpMethod::kOther;
  std::string_view path, query;  // path: without escapes
  std::string_view content_type, content_encoding, authorization, origin;
  std::uint64_t content_length = 0;
  bool has_length = false, is_chunked = false;
  bool expects_continue = false;
  bool keep_alive = false, is_http_1_0 = false;
};

enum class ReadState : std::uint8_t { kHead, kHeadRead, kBody, kWhole, kRefused };

class RequestReader : NonCopyable {
 public:
  ~RequestReader();  // NOLINT(performance-trivially-destructible): it is not where Boost is there

  void attach(char* memory) noexcept { memory_ = memory; }
  // For a new connection.
  void reset() noexcept;

  ReadState state() const noexcept { return state_; }
  // Whether bytes of a request are here.
  bool has_begun() const noexcept { return used_ > 0; }
  // Where the next bytes belong; never empty in kHead and kBody.
  Span<char> space() noexcept;
  ReadState take(std::size_t bytes) noexcept;

  // In kHeadRead. room: empty where fits_behind_head(), else memory for the whole body; limit: of its bytes.
  ReadState read_body(Span<char> room, std::uint64_t limit) noexcept;
  // Whether the body has a length that fits into the reader's own memory.
  bool fits_behind_head() const noexcept;

  const RequestHead& head() const noexcept { return head_; }
  Span<char> body() const noexcept { return {body_, body_bytes_}; }
  // The status to answer with, and why.
  int refusal() const noexcept { return refusal_; }
  const char* reason() const noexcept { return reason_; }

  // After kWhole: goes on to what came behind this request.
  ReadState next() noexcept;

 private:
  friend class HeadParser;

  HeadParser& parser() noexcept;
  void end_parser() noexcept;
  ReadState refuse(int status, const char* reason) noexcept;
  bool reads_into_room() const noexcept;
  ReadState scan_head() noexcept;
  ReadState parse_head() noexcept;
  bool has_chunk_line() noexcept;
  ReadState advance() noexcept;
  std::size_t parse(const char* bytes, std::size_t count) noexcept;
  bool take_target(char* target, std::size_t bytes) noexcept;
  bool take_path(char* path, std::size_t bytes) noexcept;

  char* memory_ = nullptr;
  std::size_t used_ = 0;    // bytes in memory_
  std::size_t parsed_ = 0;  // of them, those before this place are done with
  ReadState state_ = ReadState::kHead;
  // The head: how far it was looked through, and where its present line began.
  std::size_t scanned_ = 0, line_ = 0, head_bytes_ = 0;
  int lines_ = 0;
  RequestHead head_;
  // The body, in memory_ or in the room that the caller gave.
  char* body_ = nullptr;
  std::size_t body_bytes_ = 0, framing_bytes_ = 0, chunk_left_ = 0;
  Span<char> room_;
  int refusal_ = 0;
  const char* reason_ = "";
  // A HeadParser, made anew for each request: Beast's header is for request_reader.cpp alone.
  static constexpr std::size_t kParserBytes = 192;
  alignas(16) std::byte parser_[kParserBytes];
  bool has_parser_ = false;
};

// Whether the program was built with Boost.Beast; without it nothing can be read.
bool has_request_parser() noexcept;

}  // namespace bascule
