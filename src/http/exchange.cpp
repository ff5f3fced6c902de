// SPDX-License-Identifier: Apache-2.0
// What happens on one connection: a request is read, checked and handed over; its answer is composed and sent.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/check.h"
#include "src/http/server_state.h"

namespace bascule {
namespace {

constexpr std::int64_t kLingerMs = 1000;
constexpr std::uint32_t kGone = EPOLLRDHUP | EPOLLHUP | EPOLLERR;

// Takes as long whatever is wrong.
bool are_equal(std::string_view given, std::string_view key) noexcept {
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i)
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(key[i % key.size()]);
  return difference == 0;
}

bool has_body(const RequestHead& head) noexcept { return head.is_chunked || head.content_length > 0; }

bool would_block(int error) noexcept { return error == EAGAIN || error == EWOULDBLOCK; }

std::string_view type_of(int status) noexcept {
  return status == 429 ? "Overloaded" : status == 503 ? "Unhealthy" : "Validation";
}

}  // namespace

void HttpServer::State::watch(Connection* c, std::uint32_t events) noexcept {
  if (c->watched == events) return;
  epoll_event event = {};
  event.events = events;
  event.data.u32 = number(*c);
  ::epoll_ctl(epoll.number(), c->watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, c->socket.number(), &event);
  c->watched = events;
}

void HttpServer::State::await(Connection* c, std::int64_t milliseconds) noexcept {
  c->deadline_ns = std::min(now_ns + milliseconds * 1'000'000, drain_deadline_ns);
  next_deadline_ns = std::min(next_deadline_ns, c->deadline_ns);
}

void HttpServer::State::handle(Connection* c, std::uint32_t events) noexcept {
  switch (c->state) {
    case ConnectionState::kReading: return read(c);
    case ConnectionState::kAsked: return (events & kGone) != 0 ? abandon(c) : void();
    case ConnectionState::kSending: return send_rest(c);
    case ConnectionState::kLingering: return read(c);
    case ConnectionState::kFree:
    case ConnectionState::kAbandoned: return;  // closed after the event came
  }
}

void HttpServer::State::read(Connection* c) noexcept {
  const bool lingers = c->state == ConnectionState::kLingering;
  char thrown_away[kReaderBytes];
  const Span<char> space = lingers ? Span<char>{thrown_away, sizeof thrown_away} : c->reader.space();
  const ssize_t count = ::recv(c->socket.number(), space.data(), space.size(), 0);
  if (count < 0 && (would_block(errno) || errno == EINTR)) return;
  if (count <= 0) return close(c);
  if (lingers) return;
  (void)c->reader.take(static_cast<std::size_t>(count));
  advance(c);
}

// As far as the bytes that are here go.
void HttpServer::State::advance(Connection* c) noexcept {
  if (c->begun_ns == 0 && c->reader.has_begun()) {
    c->begun_ns = now_ns;
    await(c, settings.request_timeout_ms);
  }
  if (c->reader.state() == ReadState::kHeadRead && !allow(c)) return;
  switch (c->reader.state()) {
    case ReadState::kHead:
    case ReadState::kHeadRead:
    case ReadState::kBody: return watch(c, EPOLLIN);
    case ReadState::kWhole: return hand_over(c);
    case ReadState::kRefused: return refuse(c, c->reader.refusal(), c->reader.reason());
  }
}

// The number of the endpoint, or a status to refuse with.
int HttpServer::State::find_endpoint(Connection* c) const noexcept {
  const RequestHead& head = c->reader.head();
  const bool gets = head.method == HttpMethod::kGet || head.method == HttpMethod::kHead;
  int status = 404;
  for (std::size_t i = 0; i < settings.endpoints.size(); ++i) {
    if (settings.endpoints[i].path != head.path) continue;
    status = 405;
    c->endpoint = i;
    if (settings.endpoints[i].method == HttpMethod::kGet ? gets : head.method == HttpMethod::kPost) return 0;
  }
  return status;
}

bool HttpServer::State::has_key(const Connection& c) const noexcept {
  if (settings.api_key.empty() || !settings.endpoints[c.endpoint].needs_key) return true;
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view given = c.reader.head().authorization;
  return equals_ignoring_case(given.substr(0, kScheme.size()), kScheme) &&
         are_equal(given.substr(kScheme.size()), settings.api_key);
}

// Whether its body may come, for which it then has room; else it is refused.
bool HttpServer::State::allow(Connection* c) noexcept {
  const RequestHead& head = c->reader.head();
  const auto limit = static_cast<std::uint64_t>(settings.payload_limit);
  const int status = find_endpoint(c);
  const bool has_get = std::any_of(settings.endpoints.begin(), settings.endpoints.end(), [&](const HttpEndpoint& e) {
    return e.path == head.path && e.method == HttpMethod::kGet;
  });
  if (status == 405 && head.method == HttpMethod::kOptions && !allowed_origin(*c).empty()) {
    refuse(c, 204, "",
           "Access-Control-Allow-Methods: GET, POST\r\nAccess-Control-Allow-Headers: authorization, content-type\r\n"
           "Access-Control-Max-Age: 600\r\n");
    return false;
  }
  const auto refused = [&](int with, std::string_view message, std::string_view headers = {}) {
    refuse(c, with, message, headers);
    return false;
  };
  if (status == 404) return refused(404, "no such path");
  if (status == 405)
    return refused(405, "another method than this path has", has_get ? "Allow: GET, HEAD\r\n" : "Allow: POST\r\n");
  if (!has_key(*c)) return refused(401, "no key, or not this server's", "WWW-Authenticate: Bearer\r\n");
  if (head.method == HttpMethod::kPost && !head.has_length && !head.is_chunked)
    return refused(411, "a POST without Content-Length");
  if (!head.content_encoding.empty() && head.content_encoding != "identity")
    return refused(415, "a Content-Encoding, of which this server reads none");
  if (head.content_length > limit) return refused(413, "a body larger than payload_limit");
  Span<char> room;
  if (!c->reader.fits_behind_head()) {
    room = pool.take(head.is_chunked ? static_cast<std::size_t>(settings.payload_limit)
                                     : static_cast<std::size_t>(head.content_length));
    if (room.empty()) return refused(429, "no memory is free for this body", "Retry-After: 1\r\n");
    c->request_run = room;
  }
  const ReadState state = c->reader.read_body(room, limit);
  constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  if (head.expects_continue && state == ReadState::kBody && c->reader.body().empty() &&
      ::send(c->socket.number(), kContinue.data(), kContinue.size(), MSG_NOSIGNAL) !=
          static_cast<ssize_t>(kContinue.size())) {
    close(c);
    return false;
  }
  return true;
}

void HttpServer::State::hand_over(Connection* c) noexcept {
  const RequestHead& head = c->reader.head();
  const Span<char> body = c->reader.body();
  if (head.is_chunked) pool.shrink(c->request_run.data(), std::max<std::size_t>(1, body.size()));
  c->state = ConnectionState::kAsked;
  c->deadline_ns = drain_deadline_ns;  // a handler takes the time that it takes
  if (++c->generation == 0) c->generation = 1;
  c->open.store(c->generation, std::memory_order_relaxed);
  HttpRequest request;
  request.ticket = {number(*c), c->generation};
  request.endpoint = c->endpoint;
  request.method = settings.endpoints[c->endpoint].method;
  request.path = head.path;
  request.content_type = head.content_type;
  request.body = {body.data(), body.size()};
  request.begun_ns = c->begun_ns;
  handler->request(request);
  // Where it is answered already, this poll() sends the answer: epoll needs no word of it.
  if (c->open.load(std::memory_order_relaxed) != 0) watch(c, EPOLLRDHUP);
}

std::string_view HttpServer::State::allowed_origin(const Connection& c) const noexcept {
  const std::string_view origin = c.reader.head().origin;
  for (const std::string& allowed : settings.cors_allow_origin) {
    if (!origin.empty() && (allowed == "*" || allowed == origin)) return allowed;
  }
  return {};
}

void HttpServer::State::compose(Connection* c, const HttpAnswer& answer) noexcept {
  const RequestHead& head = c->reader.head();
  HttpAnswer kept = answer;
  const char *begin = answer.body.data(), *run = c->answer_run.data();
  const bool is_reserved = run != nullptr && begin >= run && begin + answer.body.size() <= run + c->answer_run.size();
  if (!answer.lasting && !is_reserved && !answer.body.empty()) {
    BASCULE_CHECK(answer.body.size() <= kCopiedBytes);
    std::memcpy(c->out + kAnswerHeadBytes, begin, answer.body.size());
    kept.body = {c->out + kAnswerHeadBytes, answer.body.size()};
  }
  AnswerConnection connection;
  connection.standing_headers = settings.headers;
  connection.allowed_origin = allowed_origin(*c);
  connection.closes = c->closes = c->closes || !head.keep_alive || is_draining.load(std::memory_order_relaxed);
  connection.says_keep_alive = !c->closes && head.is_http_1_0;
  c->head_bytes = write_answer_head({c->out, kAnswerHeadBytes}, kept, connection);
  c->body = head.method == HttpMethod::kHead ? std::string_view() : kept.body;
  c->sent_bytes = 0;
}

// By the server itself. What follows a head that was refused, or a body that was not read, is not read either.
void HttpServer::State::refuse(Connection* c, int status, std::string_view message, std::string_view headers) noexcept {
  const RequestHead& head = c->reader.head();
  char text[512];
  HttpAnswer answer;
  answer.status = status;
  answer.headers = headers;
  if (status == 204)
    answer.content_type = "";
  else
    answer.body = {text, write_http_error(text, sizeof text, head.path, status, type_of(status), message)};
  c->closes = c->reader.state() != ReadState::kHeadRead || has_body(head);
  compose(c, answer);
  c->state = ConnectionState::kAsked;
  c->deadline_ns = kNever;
  if (status != 204) handler->refused(status, head.path);
  note_answer(number(*c));
}

void HttpServer::State::answer(HttpTicket ticket, const HttpAnswer& answer) noexcept {
  BASCULE_CHECK(ticket.slot < slots);
  Connection* c = connections + ticket.slot;
  BASCULE_CHECK(ticket.generation != 0 && c->open.load(std::memory_order_relaxed) == ticket.generation);
  BASCULE_CHECK(answer.headers.size() <= kMostAddedBytes);
  compose(c, answer);
  BASCULE_CHECK(c->open.exchange(0, std::memory_order_acq_rel) == ticket.generation);
  note_answer(ticket.slot);
}

// It is sent from the loop, so that requests in a row that are refused at once need no deep stack.
void HttpServer::State::note_answer(std::uint32_t slot) noexcept {
  const std::lock_guard<std::mutex> lock(answered_lock);
  answered[(answered_begin + answered_count++) % slots] = slot;
}

void HttpServer::State::send_answer(Connection* c) noexcept {
  if (!c->request_run.empty()) pool.shrink(c->request_run.data(), 0);
  c->request_run = {};
  c->state = ConnectionState::kSending;
  await(c, settings.request_timeout_ms);
  send_rest(c);
}

void HttpServer::State::send_rest(Connection* c) noexcept {
  const std::size_t all = c->head_bytes + c->body.size();
  while (c->sent_bytes < all) {
    const std::size_t of_head = std::min(c->sent_bytes, c->head_bytes), of_body = c->sent_bytes - of_head;
    iovec parts[2] = {{c->out + of_head, c->head_bytes - of_head},
                      {const_cast<char*>(c->body.data()) + of_body, c->body.size() - of_body}};
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t count = ::sendmsg(c->socket.number(), &message, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && would_block(errno)) return watch(c, EPOLLOUT);
    if (count < 0) return close(c);
    c->sent_bytes += static_cast<std::size_t>(count);
  }
  release_runs(c);
  if (!c->closes) return go_on(c);
  c->state = ConnectionState::kLingering;
  ::shutdown(c->socket.number(), SHUT_WR);
  await(c, kLingerMs);
  watch(c, EPOLLIN);
}

// With the connection's next request, part of which may be here.
void HttpServer::State::go_on(Connection* c) noexcept {
  c->state = ConnectionState::kReading;
  c->begun_ns = 0;
  await(c, is_draining ? kLingerMs : settings.idle_timeout_ms);
  (void)c->reader.next();
  advance(c);
}

void HttpServer::State::expire(Connection* c) noexcept {
  if (c->state == ConnectionState::kAsked) return abandon(c);
  if (c->state == ConnectionState::kReading && c->begun_ns != 0)
    return refuse(c, 408, "a request that did not come whole within request_timeout_seconds");
  close(c);
}

// The client has gone, or the time to drain has passed; the slot waits for the handler.
void HttpServer::State::abandon(Connection* c) noexcept {
  c->socket.reset();
  c->deadline_ns = kNever;
  c->watched = 0;
  c->state = ConnectionState::kAbandoned;
  handler->gone({number(*c), c->generation});
}

void HttpServer::State::release_runs(Connection* c) noexcept {
  for (Span<char>* run : {&c->request_run, &c->answer_run}) {
    if (run->data() != nullptr) pool.shrink(run->data(), 0);
    *run = {};
  }
}

void HttpServer::State::close(Connection* c) noexcept {
  c->socket.reset();
  c->watched = 0;
  c->deadline_ns = kNever;
  release_runs(c);
  c->state = ConnectionState::kFree;
  free_slots[free_count++] = number(*c);
  if (is_paused) listen_again(true);
}

}  // namespace bascule
