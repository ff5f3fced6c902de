// SPDX-License-Identifier: Apache-2.0
// The loop: waiting for sockets, accepting, deadlines, answers of other threads, draining.
#include "src/http/http_server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mapped_memory.h"
#include "src/http/server_state.h"

namespace bascule {
namespace {

constexpr std::uint32_t kListener = ~std::uint32_t{0}, kWaker = kListener - 1;  // numbers that no slot has
constexpr int kMostEvents = 128, kMostAccepted = 64;
constexpr std::int64_t kMillisecond = 1'000'000;
// A connection may be evicted that was idle for so long; so often is looked for one while all slots are taken; so long
// a connection may stay idle after drain().
constexpr std::int64_t kMayEvictNs = 1000 * kMillisecond, kPauseNs = 100 * kMillisecond,
                       kDrainIdleNs = 1000 * kMillisecond;

// The thread that is within poll() sends by itself what it answers.
thread_local const void* polling = nullptr;

[[noreturn]] void refuse_system(const char* what) {
  throw Error(ErrorKind::kMemory, "serve", std::string(what) + ": " + std::strerror(errno), advice_for_open(errno));
}

}  // namespace

std::size_t HttpServer::State::cut(std::byte* block) noexcept {
  ArrayCutter cutter(block);
  char *readers = nullptr, *outputs = nullptr, *blocks = nullptr;
  std::uint32_t* runs = nullptr;
  const std::size_t pool_blocks = divide_up(static_cast<std::size_t>(settings.pool_bytes), BlockPool::kBlockBytes);
  constexpr std::size_t kOutBytes = kAnswerHeadBytes + kCopiedBytes;
  cutter.cut(&connections, slots);
  cutter.cut(&free_slots, slots);
  cutter.cut(&answered, slots);
  cutter.cut(&runs, pool_blocks);
  cutter.cut(&readers, slots * kReaderBytes);
  cutter.cut(&outputs, slots * kOutBytes);
  cutter.cut(&blocks, pool_blocks * BlockPool::kBlockBytes);
  if (block == nullptr) return cutter.used_bytes();
  for (std::size_t i = 0; i < slots; ++i) {
    connections[i].reader.attach(readers + i * kReaderBytes);
    connections[i].out = outputs + i * kOutBytes;
    free_slots[i] = static_cast<std::uint32_t>(slots - 1 - i);
  }
  free_count = slots;
  pool.attach(blocks, {runs, pool_blocks});
  return cutter.used_bytes();
}

HttpServer::State::State(HttpSettings given, HttpHandler* its_handler)
    : settings(std::move(given)), handler(its_handler), slots(static_cast<std::size_t>(settings.max_connections)) {}

HttpServer::State::~State() {
  for (std::size_t i = 0; connections != nullptr && i < slots; ++i) connections[i].~Connection();
  if (memory != nullptr) ::munmap(memory, memory_bytes);
  if (!listening.path.empty()) ::unlink(listening.path.c_str());
}

HttpServer::HttpServer(HttpSettings settings, HttpHandler& handler)
    : state_(std::make_unique<State>(std::move(settings), &handler)) {
  if (!has_request_parser())
    throw Error(ErrorKind::kSettings, "serve", "this program was built without Boost.Beast",
                "install libboost-dev and build with -Dserve=enabled");
  State& s = *state_;
  BASCULE_CHECK(s.slots > 0 && s.settings.headers.size() <= kMostAddedBytes);
  const bool may_be_remote = !s.settings.api_key.empty() || s.settings.allow_remote_without_key;
  if (!s.settings.listen.empty()) s.listening = open_listening_socket(s.settings.listen, may_be_remote);
  s.epoll = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  s.waker = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  s.spare = Descriptor(::eventfd(0, EFD_CLOEXEC));
  if (!s.epoll.is_open() || !s.waker.is_open() || !s.spare.is_open()) refuse_system("descriptors");
  s.memory_bytes = s.cut(nullptr);
  s.memory = map_memory(s.memory_bytes, HugePages::kTransparent);
  if (s.memory == nullptr) refuse_system("memory of connections");
  if ((errno = touch_memory(s.memory, s.memory_bytes, false)) != 0) refuse_system("memory of connections");
  s.cut(s.memory);
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u32 = kWaker;
  ::epoll_ctl(s.epoll.number(), EPOLL_CTL_ADD, s.waker.number(), &event);
  event.data.u32 = kListener;
  ::epoll_ctl(s.epoll.number(), EPOLL_CTL_ADD, s.listening.socket.number(), &event);
}

HttpServer::~HttpServer() = default;

std::size_t HttpServer::memory_bytes(const HttpSettings& settings) { return State(settings, nullptr).cut(nullptr); }

const std::string& HttpServer::address() const { return state_->listening.address; }

void HttpServer::connect(Descriptor socket) noexcept {
  ::fcntl(socket.number(), F_SETFL, O_NONBLOCK);
  state_->now_ns = monotonic_ns();
  state_->adopt(socket.release());
}

void HttpServer::poll(int timeout_ms) noexcept { state_->poll(timeout_ms); }

void HttpServer::answer(HttpTicket ticket, const HttpAnswer& answer) noexcept {
  state_->answer(ticket, answer);
  if (polling != state_.get()) wake();
}

void HttpServer::wake() noexcept {
  const int reason = errno;  // of the code that a signal handler interrupts
  const std::uint64_t one = 1;
  (void)!::write(state_->waker.number(), &one, sizeof one);
  errno = reason;
}

char* HttpServer::reserve(HttpTicket ticket, std::size_t bytes) noexcept {
  Connection& c = state_->connections[ticket.slot];
  BASCULE_CHECK(c.generation == ticket.generation && c.answer_run.data() == nullptr);
  c.answer_run = state_->pool.take(bytes);
  return c.answer_run.data();
}

void HttpServer::drain() noexcept { state_->drain(); }
bool HttpServer::is_draining() const noexcept { return state_->is_draining; }
bool HttpServer::is_drained() const noexcept { return state_->is_draining && connections() == 0; }
std::int64_t HttpServer::connections() const noexcept {
  return static_cast<std::int64_t>(state_->slots - state_->free_count);
}
std::int64_t HttpServer::pool_bytes_used() const noexcept {
  return static_cast<std::int64_t>(state_->pool.used_bytes());
}

int HttpServer::State::wait_ms(int timeout_ms) const noexcept {
  if (next_deadline_ns == kNever) return timeout_ms;
  const std::int64_t left = std::max<std::int64_t>(0, divide_up(next_deadline_ns - monotonic_ns(), kMillisecond));
  return timeout_ms < 0 ? static_cast<int>(left) : static_cast<int>(std::min<std::int64_t>(timeout_ms, left));
}

void HttpServer::State::poll(int timeout_ms) noexcept {
  polling = this;
  epoll_event events[kMostEvents];
  const int count = ::epoll_wait(epoll.number(), events, kMostEvents, wait_ms(timeout_ms));
  now_ns = monotonic_ns();
  bool has_waiting = false;
  for (int i = 0; i < count; ++i) {
    const std::uint32_t slot = events[i].data.u32;
    std::uint64_t calls;
    if (slot == kListener)
      has_waiting = true;
    else if (slot == kWaker)
      (void)!::read(waker.number(), &calls, sizeof calls);
    else
      handle(connections + slot, events[i].events);
  }
  handle_answers();
  // Behind the events: a slot that one of them has freed must not meet another connection's.
  if (has_waiting && !is_draining) accept_waiting();
  if (now_ns >= next_deadline_ns) handle_deadlines();
  handle_answers();
  polling = nullptr;
}

void HttpServer::State::handle_answers() noexcept {
  for (;;) {
    std::uint32_t slot;
    {
      const std::lock_guard<std::mutex> lock(answered_lock);
      if (answered_count == 0) return;
      slot = answered[answered_begin];
      answered_begin = (answered_begin + 1) % slots;
      --answered_count;
    }
    Connection* c = connections + slot;
    c->state == ConnectionState::kAbandoned ? close(c) : send_answer(c);
  }
}

void HttpServer::State::handle_deadlines() noexcept {
  next_deadline_ns = kNever;
  if (is_paused) listen_again(true);
  for (std::size_t i = 0; i < slots; ++i) {
    Connection* c = connections + i;
    if (now_ns >= c->deadline_ns) expire(c);
    next_deadline_ns = std::min(next_deadline_ns, c->deadline_ns);
  }
}

void HttpServer::State::listen_again(bool listens) noexcept {
  is_paused = !listens;
  if (is_draining) return;
  epoll_event event = {};
  event.events = listens ? EPOLLIN : 0u;
  event.data.u32 = kListener;
  ::epoll_ctl(epoll.number(), EPOLL_CTL_MOD, listening.socket.number(), &event);
  if (!listens) next_deadline_ns = std::min(next_deadline_ns, now_ns + kPauseNs);
}

// Closes the connection that was idle for longest, if it was so for a second.
bool HttpServer::State::evict() noexcept {
  Connection* longest = nullptr;
  const std::int64_t latest = now_ns - kMayEvictNs + settings.idle_timeout_ms * kMillisecond;
  for (std::size_t i = 0; i < slots; ++i) {
    Connection* c = connections + i;
    if (c->state != ConnectionState::kReading || c->begun_ns != 0 || c->deadline_ns > latest) continue;
    if (longest == nullptr || c->deadline_ns < longest->deadline_ns) longest = c;
  }
  if (longest != nullptr) close(longest);
  return longest != nullptr;
}

// Some, so that those that are served go on. Returns how many.
int HttpServer::State::accept_waiting() noexcept {
  if (free_count == 0 && !evict()) {
    listen_again(false);
    return 0;
  }
  int accepted = 0;
  while (accepted < kMostAccepted && free_count > 0) {
    const int socket = ::accept4(listening.socket.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (socket < 0 && is_open_files_limit(errno)) refuse_for_want_of_descriptors();
    if (socket < 0) break;
    adopt(socket);
    ++accepted;
  }
  return accepted;
}

void HttpServer::State::adopt(int socket) noexcept {
  Connection* c = connections + free_slots[--free_count];
  c->socket = Descriptor(socket);
  c->reader.reset();
  c->state = ConnectionState::kReading;
  c->begun_ns = 0;
  c->closes = false;
  await(c, settings.idle_timeout_ms);
  watch(c, EPOLLIN);
}

// No descriptor is left: one idle connection makes room, or whoever waits is turned away by means of the spare one.
// Else it would wait, and wake the loop, for ever.
void HttpServer::State::refuse_for_want_of_descriptors() noexcept {
  if (evict()) return;
  spare.reset();
  Descriptor(::accept4(listening.socket.number(), nullptr, nullptr, SOCK_CLOEXEC)).reset();
  spare = Descriptor(::eventfd(0, EFD_CLOEXEC));
  listen_again(false);
}

void HttpServer::State::drain() noexcept {
  if (is_draining) return;
  now_ns = monotonic_ns();
  // Clients that have connected are served; a socket that was inherited keeps them for its next server.
  if (!listening.path.empty()) ::unlink(listening.path.c_str());
  listening.path.clear();
  while (!listening.is_inherited && free_count > 0 && accept_waiting() > 0) {
  }
  is_draining = true;
  ::epoll_ctl(epoll.number(), EPOLL_CTL_DEL, listening.socket.number(), nullptr);
  listening.socket.reset();
  drain_deadline_ns = now_ns + settings.drain_timeout_ms * kMillisecond;
  for (std::size_t i = 0; i < slots; ++i) {
    Connection& c = connections[i];
    const bool is_idle = c.state == ConnectionState::kReading && c.begun_ns == 0;
    const std::int64_t latest = is_idle ? std::min(drain_deadline_ns, now_ns + kDrainIdleNs) : drain_deadline_ns;
    if (c.deadline_ns != kNever || c.state == ConnectionState::kAsked) c.deadline_ns = std::min(c.deadline_ns, latest);
  }
  next_deadline_ns = now_ns;  // finds out which is the next
}

}  // namespace bascule
