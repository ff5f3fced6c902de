// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/node_links.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/clock.h"
#include "src/distributed/nodes.h"
#include "src/distributed/sockets.h"

namespace bascule {
namespace {

constexpr std::uint64_t kMagic = 0x6261736375'6c6531ULL;
constexpr int kLastWordMs = 1000;
constexpr int kLookMs = 10;
constexpr std::size_t kMostStrangers = 64;  // that are given time at once to say who they are

struct Hello {
  std::uint64_t token[2];
  std::int64_t node;
};

// One that has connected to node 0 and must show yet that it belongs to the run: it says hello, is answered with the
// same, and says it again, so that both know that this is the connection.
struct Caller {
  Descriptor socket;
  Hello hellos[2];
  std::size_t come = 0;  // bytes of them

  bool is_known() const { return come == sizeof hellos; }
};

// Reads a hello as far as it has arrived. False: the caller is gone, or does not belong to this run.
bool hear_hello(Caller* caller, const MeetingPoint& point, int nodes) {
  while (!caller->is_known()) {
    const std::size_t second = caller->come < sizeof(Hello) ? 0 : 1, end = (second + 1) * sizeof(Hello);
    char* const at = static_cast<char*>(static_cast<void*>(caller->hellos)) + caller->come;
    const ssize_t count = recv(caller->socket.number(), at, end - caller->come, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return true;
    if (count <= 0) return false;
    caller->come += static_cast<std::size_t>(count);
    if (caller->come < end) continue;
    const Hello& hello = caller->hellos[second];
    const bool is_ours = std::equal(hello.token, hello.token + 2, point.token) && hello.node > 0 &&
                         hello.node < nodes && hello.node == caller->hellos[0].node;
    if (!is_ours || (second == 0 && !send_all(caller->socket.number(), &hello, sizeof hello))) return false;
  }
  return true;
}

bool say_hello(int socket, const Hello& hello) {
  Hello answer{};
  return send_all(socket, &hello, sizeof hello) && receive_all(socket, &answer, sizeof answer, kLastWordMs) &&
         std::memcmp(&hello, &answer, sizeof hello) == 0 && send_all(socket, &hello, sizeof hello);
}

// The watch ends this process: a failure is recorded.
[[noreturn]] void wait_for_the_end() {
  for (;;) pause();
}

}  // namespace

NodeLinks::NodeLinks(ControlPage& page, Nodes& nodes, std::int64_t timeout_ms)
    : page_(page),
      timeout_ms_(timeout_ms),
      interval_ms_(std::min<std::int64_t>(std::max<std::int64_t>(timeout_ms / 20, 50), 1000)) {
  if (page.node == 0) {
    meet_others(nodes);
  } else {
    find_first(nodes);
  }
}

// Node 0 tells where it listens and waits for all others. Anybody may connect there, say nothing or anything, and keeps
// nobody waiting.
void NodeLinks::meet_others(Nodes& nodes) {
  const TcpListener listener;
  const MeetingPoint point = listener.point();
  MeetingPoint told = point;
  if (!nodes.tell_all(&told, sizeof told)) wait_for_the_end();
  std::vector<Descriptor> come(static_cast<std::size_t>(nodes.count()) - 1);  // of nodes 1, 2, ...
  std::vector<Caller> callers;
  const auto missing = [&] {
    return std::find_if(come.begin(), come.end(), [](const Descriptor& one) { return !one.is_open(); });
  };
  for (auto first = missing(); first != come.end(); first = missing()) {
    if (page_.has_failed()) wait_for_the_end();
    page_.awaited_rank.store((static_cast<std::int32_t>(first - come.begin()) + 1) * page_.local_size);
    if (callers.size() == kMostStrangers + come.size()) callers.erase(callers.begin());
    if (Descriptor socket = listener.accept(kLookMs); socket.is_open()) callers.push_back({std::move(socket), {}, 0});
    for (std::size_t i = 0; i < callers.size();) {
      const bool is_fine = hear_hello(&callers[i], point, nodes.count());
      if (is_fine && callers[i].is_known())
        come[static_cast<std::size_t>(callers[i].hellos[0].node) - 1] = std::move(callers[i].socket);
      if (is_fine && !callers[i].is_known()) {
        ++i;
      } else {
        callers.erase(callers.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }
  for (int node = 1; node < nodes.count(); ++node) add(std::move(come[static_cast<std::size_t>(node) - 1]), node);
}

void NodeLinks::find_first(Nodes& nodes) {
  page_.awaited_rank.store(0);
  MeetingPoint point{};
  if (!nodes.tell_all(&point, sizeof point)) wait_for_the_end();
  const Hello hello{{point.token[0], point.token[1]}, page_.node};
  Descriptor socket;
  for (int turn = 0; !socket.is_open(); ++turn) {
    if (page_.has_failed()) wait_for_the_end();
    if (turn > 0) poll(nullptr, 0, kLookMs);
    for (int i = 0; i < point.addresses && !socket.is_open(); ++i) {
      socket = connect_to_address(point, i, kLastWordMs);
      if (socket.is_open() && !say_hello(socket.number(), hello)) socket.reset();
    }
  }
  add(std::move(socket), 0);
}

void NodeLinks::add(Descriptor socket, int node) {
  Link link{};
  link.socket = std::move(socket);
  link.last.rank = node * page_.local_size;
  link.last.exit_code = 5;
  links_.push_back(std::move(link));
}

void NodeLinks::look(std::int64_t passed_ms) noexcept {
  unsaid_ms_ += passed_ms;
  const bool is_due = unsaid_ms_ >= interval_ms_;
  if (is_due) unsaid_ms_ = 0;
  for (Link& link : links_) {
    if (!link.socket.is_open()) continue;
    if (is_due) say(&link, Word::kAlive, facts_of(page_, 0));
    link.silence_ms += passed_ms;
    hear(&link);
    if (link.is_done || !link.socket.is_open() || link.silence_ms < timeout_ms_) continue;
    link.last.kind = FailureKind::kStuck;
    if (record_failure(page_, link.last)) page_.is_cut_off.store(1);
  }
}

// The buffers of a connection hold the words of a whole timeout: where they are full the other end is as good as gone,
// and it is no matter that a word is lost or cut.
void NodeLinks::say(Link* link, Word word, const FailureFacts& facts) noexcept {
  Message message{};
  message.magic = kMagic;
  message.word = word;
  message.stop_signal = page_.stop_signal.load();
  message.facts = facts;
  const ssize_t sent = send(link->socket.number(), &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) return;  // hear() sees it, after the last words of the other end
}

void NodeLinks::hear(Link* link) noexcept {
  for (;;) {
    char* const at = static_cast<char*>(static_cast<void*>(&link->message)) + link->come;
    const ssize_t count = recv(link->socket.number(), at, sizeof link->message - link->come, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) return lose(link);
    link->come += static_cast<std::size_t>(count);
    if (link->come < sizeof link->message) continue;
    link->come = 0;
    if (link->message.magic != kMagic) return lose(link);
    take(link);
  }
}

void NodeLinks::take(Link* link) noexcept {
  const Message& message = link->message;
  link->silence_ms = 0;
  link->is_done = link->is_done || message.word == Word::kDone;
  if (message.word == Word::kAlive) link->last = message.facts;
  if (message.stop_signal != 0) page_.stop_signal.store(message.stop_signal);
  if (message.word == Word::kFailed) record_failure(page_, message.facts);
}

// One that was silent for long before was stuck, and is killed for it by those who share its machine.
void NodeLinks::lose(Link* link) noexcept {
  link->socket.reset();
  if (link->is_done) return;
  link->last.kind = link->silence_ms > timeout_ms_ / 2 ? FailureKind::kStuck : FailureKind::kEnded;
  record_failure(page_, link->last);
}

void NodeLinks::tell() noexcept {
  for (Link& link : links_) {
    if (!link.socket.is_open()) continue;
    say(&link, Word::kFailed, page_.failure);
    shutdown(link.socket.number(), SHUT_WR);
  }
  const std::int64_t end_ms = monotonic_ms() + kLastWordMs;
  for (Link& link : links_) {
    char heard[256];
    pollfd polled{link.socket.number(), POLLIN, 0};
    for (std::int64_t left_ms = end_ms - monotonic_ms(); link.socket.is_open() && left_ms > 0;
         left_ms = end_ms - monotonic_ms()) {
      if (poll(&polled, 1, static_cast<int>(left_ms)) > 0 && recv(polled.fd, heard, sizeof heard, MSG_DONTWAIT) <= 0)
        break;
    }
  }
}

void NodeLinks::end() noexcept {
  for (Link& link : links_) {
    if (link.socket.is_open()) say(&link, Word::kDone, facts_of(page_, 0));
    link.socket.reset();
  }
}

}  // namespace bascule
