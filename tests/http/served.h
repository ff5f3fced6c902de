// SPDX-License-Identifier: Apache-2.0
// A server and its clients in one thread: pump() lets both go on until something is so.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/base/descriptor.h"
#include "src/http/http_server.h"
#include "tests/support/count_allocations.h"
#include "tests/support/sanitized.h"

namespace bascule::test {

// "127.0.0.1:PORT" or "unix:PATH". Where the server's queue is full it is connected later.
inline Descriptor connected(const std::string& address, int receive_bytes = 0) {
  sockaddr_storage bytes = {};
  void* const any = &bytes;
  socklen_t size = sizeof(sockaddr_in);
  if (address.rfind("unix:", 0) == 0) {
    auto* to = static_cast<sockaddr_un*>(any);
    to->sun_family = AF_UNIX;
    address.copy(to->sun_path, sizeof to->sun_path - 1, 5);
    size = sizeof(sockaddr_un);
  } else {
    auto* to = static_cast<sockaddr_in*>(any);
    to->sin_family = AF_INET;
    to->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to->sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  }
  Descriptor socket(::socket(bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (receive_bytes > 0) ::setsockopt(socket.number(), SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
  if (::connect(socket.number(), static_cast<sockaddr*>(any), size) != 0 && errno != EINPROGRESS) return Descriptor();
  return socket;
}

struct Client {
  Descriptor socket;
  std::string received;
  bool is_closed = false, is_reset = false;

  explicit Client(Descriptor connected_one) : socket(std::move(connected_one)) {}
  explicit Client(const std::string& address, int receive_bytes = 0) : socket(connected(address, receive_bytes)) {}

  // Returns how much the system took.
  std::size_t send(std::string_view bytes) {
    const ssize_t count = ::send(socket.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return count < 0 ? 0 : static_cast<std::size_t>(count);
  }
  void receive() {
    char part[65536];
    for (;;) {
      const ssize_t count = ::recv(socket.number(), part, sizeof part, 0);
      if (count > 0) {
        received.append(part, static_cast<std::size_t>(count));
        continue;
      }
      if (count < 0 && errno == EAGAIN) return;
      is_closed = true;
      is_reset = count < 0;
      return;
    }
  }
  int status() const { return received.size() < 12 ? 0 : std::stoi(received.substr(9, 3)); }
  bool has(std::string_view text) const { return received.find(text) != received.npos; }
  std::size_t count(std::string_view text) const {
    std::size_t found = 0;
    for (std::size_t at = received.find(text); at != received.npos; at = received.find(text, at + 1)) ++found;
    return found;
  }
  // With a reset in place of an orderly end.
  void reset() {
    const linger at_once = {1, 0};
    ::setsockopt(socket.number(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    socket.reset();
  }
};

// Answers "/echo" with the body, "/big" with bytes of its pool, "/hold" when it is told to.
struct EchoHandler final : HttpHandler {
  HttpServer* server = nullptr;
  std::vector<HttpTicket> held, gone_tickets;
  std::vector<std::string> asked, refusals;
  std::size_t big_bytes = 1 << 20;
  bool keeps_names = true;

  EchoHandler() { held.reserve(4096), gone_tickets.reserve(4096); }

  void request(const HttpRequest& request) noexcept override {
    if (keeps_names) asked.push_back(std::string(request.path));
    if (request.path == "/hold") return held.push_back(request.ticket);
    HttpAnswer answer;
    answer.content_type = "text/plain";
    answer.headers = "X-Extra: 1\r\n";
    const std::size_t bytes = request.path == "/big" ? big_bytes : request.body.size();
    if (bytes <= HttpServer::kCopiedBytes) {
      answer.body = request.body;
      return server->answer(request.ticket, answer);
    }
    char* memory = server->reserve(request.ticket, bytes);
    if (memory == nullptr) return server->answer(request.ticket, {429, "text/plain", "Retry-After: 1\r\n", "full"});
    if (request.path == "/big")
      std::memset(memory, 'b', bytes);
    else
      std::memcpy(memory, request.body.data(), bytes);
    answer.body = {memory, bytes};
    server->answer(request.ticket, answer);
  }
  void gone(HttpTicket ticket) noexcept override { gone_tickets.push_back(ticket); }
  void refused(int status, std::string_view path) noexcept override {
    if (keeps_names) refusals.push_back(std::to_string(status) + ' ' + std::string(path));
  }
};

inline HttpSettings small_settings() {
  HttpSettings settings;
  settings.listen = "127.0.0.1:0";
  settings.endpoints = {{HttpMethod::kGet, "/health", false}, {HttpMethod::kPost, "/echo", true},
                        {HttpMethod::kGet, "/", true},        {HttpMethod::kPost, "/", true},
                        {HttpMethod::kPost, "/hold", true},   {HttpMethod::kPost, "/big", true}};
  settings.max_connections = 64;
  settings.payload_limit = 1 << 20;
  settings.pool_bytes = 8 << 20;
  settings.headers = "X-Model: m\r\n";
  return settings;
}

// Such times pass quickly where nothing slows a test down.
inline int slowly(int milliseconds) { return kIsSanitized ? 5 * milliseconds : milliseconds; }

struct Served {
  EchoHandler handler;
  HttpServer server;
  std::int64_t allocated = 0;  // within poll()

  explicit Served(HttpSettings settings = small_settings()) : server(std::move(settings), handler) {
    handler.server = &server;
  }
  Client client(int receive_bytes = 0) { return Client(server.address(), receive_bytes); }

  void poll() {
    const std::int64_t before = allocations();
    server.poll(1);
    allocated += allocations() - before;
  }
  // Whether it became so, within ten seconds.
  bool pump(const std::vector<Client*>& clients, const std::function<bool()>& is_so) {
    for (const std::int64_t end = monotonic_ms() + slowly(10000); monotonic_ms() < end;) {
      poll();
      for (Client* client : clients) client->receive();
      if (is_so()) return true;
    }
    return false;
  }
  void pump_for(const std::vector<Client*>& clients, int milliseconds) {
    const std::int64_t end = monotonic_ms() + milliseconds;
    (void)pump(clients, [&] { return monotonic_ms() >= end; });
  }
  // The answer to these bytes, until the connection is closed or it is still for a moment.
  Client exchange(const std::string& bytes) {
    Client c = client();
    c.send(bytes);
    (void)pump({&c}, [&] { return c.is_closed || !c.received.empty(); });
    pump_for({&c}, 5);
    return c;
  }
};

inline std::string http_get(const std::string& path, const std::string& headers = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n";
}
inline std::string http_post(const std::string& path, const std::string& body, const std::string& headers = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + headers +
         "\r\n" + body;
}

}  // namespace bascule::test
