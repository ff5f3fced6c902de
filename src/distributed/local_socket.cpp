// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/local_socket.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <utility>

#include "src/base/clock.h"
#include "src/base/error.h"

namespace bascule {
namespace {

struct Address {
  sockaddr_un bytes{};
  socklen_t length = 0;

  explicit Address(const std::string& name) {
    bytes.sun_family = AF_UNIX;
    const std::size_t count = name.size() < sizeof bytes.sun_path - 1 ? name.size() : sizeof bytes.sun_path - 1;
    std::memcpy(bytes.sun_path + 1, name.data(), count);  // the first byte, zero, makes it abstract
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + count);
  }
  const sockaddr* get() const { return static_cast<const sockaddr*>(static_cast<const void*>(&bytes)); }
};

Descriptor new_socket() { return Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

bool is_readable(int descriptor, int timeout_ms) noexcept {
  pollfd ready{descriptor, POLLIN, 0};
  const std::int64_t end_ms = monotonic_ms() + timeout_ms;
  for (;;) {
    const std::int64_t left_ms = end_ms - monotonic_ms();
    const int polled = poll(&ready, 1, left_ms > 0 ? static_cast<int>(left_ms) : 0);
    if (polled > 0) return true;
    if (polled == 0 || errno != EINTR) return false;
  }
}

bool is_of_this_user(int socket) noexcept {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

}  // namespace

Descriptor listen_at(const std::string& name) {
  Descriptor listening = new_socket();
  const Address address(name);
  if (bind(listening.number(), address.get(), address.length) != 0 || listen(listening.number(), SOMAXCONN) != 0) {
    throw Error(ErrorKind::kRank, "starting ranks", "cannot listen at @" + name + ": " + std::strerror(errno));
  }
  return listening;
}

Descriptor connect_to(const std::string& name, int timeout_ms) {
  const Address address(name);
  const std::int64_t end_ms = monotonic_ms() + timeout_ms;
  do {
    Descriptor connection = new_socket();
    if (connect(connection.number(), address.get(), address.length) == 0)
      return is_of_this_user(connection.number()) ? std::move(connection) : Descriptor();
    const timespec pause{0, 5'000'000};
    nanosleep(&pause, nullptr);
  } while (monotonic_ms() < end_ms);
  return Descriptor();
}

Descriptor accept_from(int listening, int timeout_ms) {
  const std::int64_t end_ms = monotonic_ms() + timeout_ms;
  for (std::int64_t left_ms = timeout_ms; left_ms > 0; left_ms = end_ms - monotonic_ms()) {
    if (!is_readable(listening, static_cast<int>(left_ms))) break;
    Descriptor connection(accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.is_open() && is_of_this_user(connection.number())) return connection;
  }
  return Descriptor();
}

bool write_number(int socket, std::int32_t number) noexcept {
  return send(socket, &number, sizeof number, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof number);
}

bool read_number(int socket, std::int32_t* number, int timeout_ms) noexcept {
  return is_readable(socket, timeout_ms) &&
         recv(socket, number, sizeof *number, MSG_WAITALL) == static_cast<ssize_t>(sizeof *number);
}

std::string fresh_name() {
  std::uint64_t words[2] = {0, 0};
  if (getrandom(words, sizeof words, 0) != static_cast<ssize_t>(sizeof words))
    words[0] = static_cast<std::uint64_t>(getpid());
  char text[40];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(words[0]),
                static_cast<unsigned long long>(words[1]));
  return text;
}

}  // namespace bascule
