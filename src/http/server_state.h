// SPDX-License-Identifier: Apache-2.0
// What a server is made of: its connections, each in a slot, and the loop over them. http_server.cpp has the loop,
// exchange.cpp what happens on one connection, answer_head.cpp the heads of answers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string_view>

#include "src/base/check.h"
#include "src/base/descriptor.h"
#include "src/base/span.h"
#include "src/http/http_server.h"
#include "src/http/listening_socket.h"
#include "src/http/request_reader.h"

namespace bascule {

// Memory in blocks, lent in runs that lie in one piece: the bodies and answers that are larger than a slot.
class BlockPool {
 public:
  static constexpr std::size_t kBlockBytes = 16384;

  // runs: one for each block, whose memory begins at `memory`.
  void attach(char* memory, Span<std::uint32_t> runs) noexcept {
    memory_ = memory;
    runs_ = runs;
    std::fill(runs.begin(), runs.end(), 0u);
  }

  // The first gap that is large enough, or empty. At least one block, so that every run has a place of its own.
  Span<char> take(std::size_t bytes) noexcept {
    const std::size_t blocks = std::max<std::size_t>(1, divide_up(bytes, kBlockBytes));
    for (std::size_t at = 0, gap = 0; at < runs_.size();) {
      if (runs_[at] > 0) {
        at += runs_[at];
        gap = 0;
      } else if (++at, ++gap == blocks) {
        const std::size_t begin = at - blocks;
        runs_[begin] = static_cast<std::uint32_t>(blocks);
        used_blocks_ += blocks;
        return {memory_ + begin * kBlockBytes, bytes};
      }
    }
    return {};
  }

  // Gives back what lies behind the first `bytes` of a run, and all of it with 0.
  void shrink(const char* run, std::size_t bytes) noexcept {
    const std::size_t at = static_cast<std::size_t>(run - memory_) / kBlockBytes;
    const auto kept = static_cast<std::uint32_t>(divide_up(bytes, kBlockBytes));
    BASCULE_CHECK(at < runs_.size() && kept <= runs_[at]);
    used_blocks_ -= runs_[at] - kept;
    runs_[at] = kept;
  }

  std::size_t used_bytes() const noexcept { return used_blocks_ * kBlockBytes; }

 private:
  char* memory_ = nullptr;
  Span<std::uint32_t> runs_;  // at a run's first block its blocks, else 0
  std::size_t used_blocks_ = 0;
};

// The head of an answer as text, in memory of the caller's. No clock, so that an answer is the same every time.
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

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

enum class ConnectionState : std::uint8_t {
  kFree,
  kReading,    // a request, or nothing yet
  kAsked,      // the handler has its request
  kAbandoned,  // the same, and the client has gone: there is no socket
  kSending,
  kLingering,  // all is sent: what still comes is thrown away, so that no reset overtakes the answer
};

struct Connection {
  Descriptor socket;
  ConnectionState state = ConnectionState::kFree;
  std::uint32_t watched = 0;  // events that epoll tells of
  std::int64_t begun_ns = 0;  // its request's first byte; 0: none
  std::int64_t deadline_ns = kNever;
  RequestReader reader;
  Span<char> request_run, answer_run;  // of the pool
  std::size_t endpoint = 0;

  // The ticket: its number, and the same until it is answered, then 0.
  std::uint32_t generation = 0;
  std::atomic<std::uint32_t> open{0};
  // The answer, written by the thread that answers: its head lies in `out`, with a body that was copied behind it.
  char* out = nullptr;
  std::size_t head_bytes = 0, sent_bytes = 0;
  std::string_view body;
  bool closes = false;
};

struct HttpServer::State {
  State(HttpSettings given, HttpHandler* its_handler);  // no handler: only its memory is counted
  ~State();

  // All of its memory, cut from one block; without memory it is only counted.
  std::size_t cut(std::byte* memory) noexcept;

  // http_server.cpp: the loop
  void poll(int timeout_ms) noexcept;
  int wait_ms(int timeout_ms) const noexcept;
  void handle_deadlines() noexcept;
  void handle_answers() noexcept;
  int accept_waiting() noexcept;
  void adopt(int socket) noexcept;
  void refuse_for_want_of_descriptors() noexcept;
  bool evict() noexcept;
  void listen_again(bool listens) noexcept;
  void drain() noexcept;

  // exchange.cpp: one connection
  void handle(Connection* c, std::uint32_t events) noexcept;
  void read(Connection* c) noexcept;
  void advance(Connection* c) noexcept;
  bool allow(Connection* c) noexcept;
  int find_endpoint(Connection* c) const noexcept;
  bool has_key(const Connection& c) const noexcept;
  void hand_over(Connection* c) noexcept;
  void refuse(Connection* c, int status, std::string_view message, std::string_view headers = {}) noexcept;
  void compose(Connection* c, const HttpAnswer& answer) noexcept;
  std::string_view allowed_origin(const Connection& c) const noexcept;
  void answer(HttpTicket ticket, const HttpAnswer& answer) noexcept;
  void note_answer(std::uint32_t slot) noexcept;
  void send_answer(Connection* c) noexcept;
  void send_rest(Connection* c) noexcept;
  void go_on(Connection* c) noexcept;
  void expire(Connection* c) noexcept;
  void abandon(Connection* c) noexcept;
  void close(Connection* c) noexcept;
  void release_runs(Connection* c) noexcept;
  void await(Connection* c, std::int64_t milliseconds) noexcept;
  void watch(Connection* c, std::uint32_t events) noexcept;
  std::uint32_t number(const Connection& c) const noexcept { return static_cast<std::uint32_t>(&c - connections); }

  const HttpSettings settings;
  HttpHandler* const handler;
  ListeningSocket listening;
  Descriptor epoll, waker, spare;  // spare: given up for a moment where there are no more descriptors
  std::byte* memory = nullptr;
  std::size_t memory_bytes = 0;

  std::size_t slots = 0;
  Connection* connections = nullptr;
  std::uint32_t* free_slots = nullptr;  // a stack
  std::size_t free_count = 0;
  BlockPool pool;

  std::int64_t now_ns = 0;
  std::int64_t next_deadline_ns = kNever;  // at the latest
  std::int64_t drain_deadline_ns = kNever;
  std::atomic<bool> is_draining{false};
  bool is_paused = false;  // accepts nothing until a slot is free

  // Slots whose tickets are answered: a ring.
  std::mutex answered_lock;
  std::uint32_t* answered = nullptr;
  std::size_t answered_begin = 0, answered_count = 0;
};

}  // namespace bascule
