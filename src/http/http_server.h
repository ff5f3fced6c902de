// SPDX-License-Identifier: Apache-2.0
// HttpServer: HTTP/1.1 on one thread, in memory that is fixed when it is made: nothing allocates afterwards, on any
// thread. It reads requests (request_reader.h is strict about their bytes), checks key, path and method, hands them
// to the handler and writes the handler's answers. It knows no JSON and no model.
//
//   HttpServer server(settings, handler);        // binds, reserves and touches its memory; throws Error
//   while (!server.is_drained()) {               // one thread: "the server's thread"
//     server.poll(100);                          // sockets, deadlines, answers; calls the handler
//     if (stop_signal() != 0) server.drain();
//   }
//
// A request lives in a slot. Its ticket is ended by exactly one call of answer(), from any thread, also when the
// client has gone meanwhile (the answer is then dropped): until that call the request's views, its body and what
// reserve() gave stay valid, and the slot serves nobody else.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/descriptor.h"
#include "src/base/span.h"

namespace bascule {

enum class HttpMethod : std::uint8_t { kGet, kPost, kHead, kOptions, kOther };

// Whether it is that word of small letters, whatever the case of its own: of ASCII.
inline bool equals_ignoring_case(std::string_view text, std::string_view word) noexcept {
  return std::equal(text.begin(), text.end(), word.begin(), word.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + ('a' - 'A') : a) == b; });
}

// What there is to ask for. A path that is not listed gets 404, another method 405 with Allow.
struct HttpEndpoint {
  HttpMethod method = HttpMethod::kGet;  // whose head may be asked too; or kPost
  std::string path;                      // "/v1/models"; decoded, without a query
  bool needs_key = true;                 // false: answered without the API key too
  int kind = 0;                          // the handler's
};

struct HttpSettings {
  std::string listen = "127.0.0.1:3000";  // or "[::1]:3000", or "unix:PATH"; $LISTEN_FDS wins. "": nowhere
  std::vector<HttpEndpoint> endpoints;
  std::int64_t max_connections = 1024;     // slots of some 20 KiB
  std::int64_t payload_limit = 2'000'000;  // bytes of a body; 413 above
  // Bodies that do not fit into a slot (a head with its body: 16 KiB), and answers: the pool that all share. A body
  // or an answer that finds no room is refused with 429.
  std::int64_t pool_bytes = std::int64_t{64} << 20;
  std::int64_t request_timeout_ms = 10'000;  // from a request's first byte to its last; the same to send its answer
  std::int64_t idle_timeout_ms = 60'000;     // before a request's first byte
  std::int64_t drain_timeout_ms = 30'000;
  std::string api_key;  // empty: none is asked for. Without one only loopback and Unix sockets are served, but with
  bool allow_remote_without_key = false;
  std::vector<std::string> cors_allow_origin;  // exact origins, or "*"
  std::string headers;                         // of every answer, each ended by \r\n: "X-Bascule-Model: sha256:...\r\n"
};

struct HttpTicket {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
};

struct HttpRequest {
  HttpTicket ticket;
  std::size_t endpoint = 0;  // its number in HttpSettings::endpoints
  HttpMethod method = HttpMethod::kGet;
  std::string_view path;          // without its query
  std::string_view content_type;  // "" without one; as it was sent, with its parameters
  std::string_view body;          // in one piece
  std::int64_t begun_ns = 0;      // monotonic_ns() at its first byte
};

struct HttpAnswer {
  int status = 200;
  std::string_view content_type = "application/json";  // "": none, and no body
  // More headers, each ended by \r\n, at most 512 bytes: "Retry-After: 1\r\n". Content-Length, Repr-Digest,
  // Connection and HttpSettings::headers are the server's.
  std::string_view headers = {};
  // Within what reserve() gave for this ticket, or bytes that live as long as the server (`lasting`), or at most
  // HttpServer::kCopiedBytes, which are copied.
  std::string_view body = {};
  bool lasting = false;
};

// Called on the server's thread. No call may block, allocate or throw.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;

  // A whole request, which the handler answers now or later.
  virtual void request(const HttpRequest& request) noexcept = 0;
  // The client of a request has gone: its work may be dropped, its ticket is still to be ended. It may come while
  // another thread answers. A client that only closes its sending side counts as gone.
  virtual void gone(HttpTicket ticket) noexcept = 0;
  // The server has refused a request by itself, for the counts. path: "" where it was not read.
  virtual void refused(int status, std::string_view path) noexcept = 0;
};

class HttpServer : NonCopyable {
 public:
  static constexpr std::size_t kCopiedBytes = 2048;

  // Listens at once, serves from the first poll() on: clients wait until then. Throws Error{kSettings} for an address
  // that cannot be used, or that others reach without a key, and where the program was built without Boost.Beast.
  HttpServer(HttpSettings settings, HttpHandler& handler);
  ~HttpServer();

  // All memory that a server of these settings reserves, for the plan.
  static std::size_t memory_bytes(const HttpSettings& settings);
  // Where it listens: "127.0.0.1:3000" with the port that port 0 became, "unix:PATH".
  const std::string& address() const;

  // Serves that connection, too; before poll(), and while a slot is free.
  void connect(Descriptor socket) noexcept;
  // Handles what has come, or waits for it, at most timeout_ms and until wake().
  void poll(int timeout_ms) noexcept;
  // Memory for an answer of at most `bytes`, where it may be written until answer(). Once a ticket, within
  // HttpHandler::request(). nullptr: the pool is full, answer 429.
  char* reserve(HttpTicket ticket, std::size_t bytes) noexcept;
  // Ends a ticket. Any thread.
  void answer(HttpTicket ticket, const HttpAnswer& answer) noexcept;
  // Ends a poll() that waits. Any thread, and signal handlers.
  void wake() noexcept;

  // Accepts no more; every connection serves one more request at most and is closed. Afterwards again: nothing.
  void drain() noexcept;
  bool is_draining() const noexcept;
  // After drain(): whether all connections are closed and no ticket is open. After drain_timeout those that are open
  // are gone.
  bool is_drained() const noexcept;

  // For the metrics; the server's thread.
  std::int64_t connections() const noexcept;
  std::int64_t pool_bytes_used() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The JSON of a refusal in the form that the path's clients read: {"error":..,"error_type":..}, below /v1/
// {"error":{"message":..,"type":..,"param":null,"code":..}}. message, type: without what JSON escapes. Returns the
// length; the text is cut where `capacity` ends.
std::size_t write_http_error(char* out, std::size_t capacity, std::string_view path, int status, std::string_view type,
                             std::string_view message) noexcept;

}  // namespace bascule
