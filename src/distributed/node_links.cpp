// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/node_links.h"

#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "src/base/error.h"
#include "src/distributed/nodes.h"
#include "src/distributed/tcp_socket.h"

namespace bascule {
namespace {

constexpr std::uint64_t kMagic = 0x6261736375'6c6531ULL;
constexpr int kLastWordMs = 1000;

struct Hello {
  std::uint64_t token[2];
  std::int64_t node;
};

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

// Node 0 tells where it listens and waits for all others.
void NodeLinks::meet_others(Nodes& nodes) {
  const TcpListener listener;
  const MeetingPoint point = listener.point();
  MeetingPoint told = point;
  const int expected = nodes.count() - 1, timeout_ms = static_cast<int>(timeout_ms_);
  bool passed = nodes.tell_all(&told, sizeof told);
  std::vector<Descriptor> come(static_cast<std::size_t>(nodes.count()));
  const std::int64_t end_ms = monotonic_ms() + timeout_ms_;
  for (int count = 0; passed && count < expected;) {
    Descriptor socket = listener.accept(timeout_ms);
    Hello hello{};
    passed = monotonic_ms() < end_ms;
    if (!socket.is_open() || !receive_all(socket.number(), &hello, sizeof hello, kLastWordMs)) continue;
    const bool is_ours = std::equal(hello.token, hello.token + 2, point.token) && hello.node > 0 &&
                         hello.node <= expected && !come[static_cast<std::size_t>(hello.node)].is_open();
    if (!is_ours || !send_all(socket.number(), &hello, sizeof hello)) continue;
    come[static_cast<std::size_t>(hello.node)] = std::move(socket);
    ++count;
  }
  if (!passed)
    throw Error(ErrorKind::kRank, "starting ranks", "a machine did not connect to the first one in time",
                "see the messages of its ranks, or raise distributed.timeout_seconds");
  for (int node = 1; node < nodes.count(); ++node) add(std::move(come[static_cast<std::size_t>(node)]), node);
}

void NodeLinks::find_first(Nodes& nodes) {
  MeetingPoint point{};
  const std::int64_t end_ms = monotonic_ms() + timeout_ms_;
  const bool passed = nodes.tell_all(&point, sizeof point);
  Descriptor socket;
  while (passed && !socket.is_open() && monotonic_ms() < end_ms) {
    for (int i = 0; i < point.addresses && !socket.is_open(); ++i) {
      socket = connect_to_address(point, i, kLastWordMs);
      Hello hello{{point.token[0], point.token[1]}, page_.node}, answer{};
      const bool is_first = socket.is_open() && send_all(socket.number(), &hello, sizeof hello) &&
                            receive_all(socket.number(), &answer, sizeof answer, kLastWordMs) &&
                            std::memcmp(&hello, &answer, sizeof hello) == 0;
      if (!is_first) socket.reset();
    }
  }
  if (!socket.is_open())
    throw Error(ErrorKind::kRank, std::string("machine ") + page_.host, "cannot reach that of rank 0 over TCP",
                "see that no firewall is between them");
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
