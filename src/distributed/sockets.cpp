// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/sockets.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
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

namespace {

[[noreturn]] void refuse(const char* what) {
  throw Error(ErrorKind::kRank, "starting ranks", std::string(what) + ": " + std::strerror(errno));
}

sockaddr* plain(sockaddr_storage* address) { return static_cast<sockaddr*>(static_cast<void*>(address)); }

bool becomes(short event, int socket, int timeout_ms) noexcept {
  pollfd ready{socket, event, 0};
  return poll(&ready, 1, timeout_ms) > 0;
}

void send_at_once(int socket) noexcept {
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

// The address of an interface with the listener's port; false where other machines have no use for it.
bool take_address(const ifaddrs& interface, std::uint16_t port, sockaddr_storage* out) {
  if (interface.ifa_addr == nullptr || (interface.ifa_flags & IFF_UP) == 0) return false;
  if (interface.ifa_addr->sa_family == AF_INET) {
    sockaddr_in address{};
    std::memcpy(&address, interface.ifa_addr, sizeof address);
    address.sin_port = port;
    std::memcpy(out, &address, sizeof address);
    return true;
  }
  if (interface.ifa_addr->sa_family != AF_INET6) return false;
  sockaddr_in6 address{};
  std::memcpy(&address, interface.ifa_addr, sizeof address);
  address.sin6_port = port;
  std::memcpy(out, &address, sizeof address);
  return address.sin6_scope_id == 0;  // one of a link alone means nothing elsewhere
}

}  // namespace

// One socket for both families, or for the old one where the system has no other.
TcpListener::TcpListener() : socket_(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_storage address{};
  address.ss_family = socket_.is_open() ? AF_INET6 : AF_INET;
  const int no = 0;
  if (socket_.is_open()) {
    setsockopt(socket_.number(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  } else {
    socket_ = Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  socklen_t length = address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (!socket_.is_open() || bind(socket_.number(), plain(&address), length) != 0 ||
      listen(socket_.number(), SOMAXCONN) != 0 || getsockname(socket_.number(), plain(&address), &length) != 0)
    refuse("cannot listen for the other machines");
  std::memcpy(&port_, static_cast<char*>(static_cast<void*>(&address)) + 2, sizeof port_);  // the same place in both
  if (getrandom(token_, sizeof token_, 0) != static_cast<ssize_t>(sizeof token_)) refuse("cannot get random numbers");
}

MeetingPoint TcpListener::point() const {
  MeetingPoint point{};
  point.token[0] = token_[0];
  point.token[1] = token_[1];
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) refuse("cannot read this machine's addresses");
  // Its own last: they serve where all "machines" are this one.
  for (const unsigned is_own : {0u, unsigned{IFF_LOOPBACK}}) {
    for (const ifaddrs* at = interfaces; at != nullptr && point.addresses < MeetingPoint::kMost; at = at->ifa_next) {
      const bool is_wanted = (at->ifa_flags & IFF_LOOPBACK) == is_own;
      if (is_wanted && take_address(*at, port_, &point.address[point.addresses])) ++point.addresses;
    }
  }
  freeifaddrs(interfaces);
  return point;
}

Descriptor TcpListener::accept(int timeout_ms) const {
  if (!becomes(POLLIN, socket_.number(), timeout_ms)) return Descriptor();
  Descriptor connection(accept4(socket_.number(), nullptr, nullptr, SOCK_CLOEXEC));
  if (connection.is_open()) send_at_once(connection.number());
  return connection;
}

Descriptor connect_to_address(const MeetingPoint& point, int number, int timeout_ms) {
  sockaddr_storage address = point.address[number];
  const socklen_t length = address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  Descriptor connection(socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!connection.is_open()) return connection;
  if (connect(connection.number(), plain(&address), length) != 0) {
    int error = errno;
    socklen_t error_length = sizeof error;
    const bool has_connected = error == EINPROGRESS && becomes(POLLOUT, connection.number(), timeout_ms) &&
                               getsockopt(connection.number(), SOL_SOCKET, SO_ERROR, &error, &error_length) == 0 &&
                               error == 0;
    if (!has_connected) return Descriptor();
  }
  fcntl(connection.number(), F_SETFL, fcntl(connection.number(), F_GETFL) & ~O_NONBLOCK);
  send_at_once(connection.number());
  return connection;
}

bool send_all(int socket, const void* data, std::size_t bytes) noexcept {
  return send(socket, data, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

bool receive_all(int socket, void* data, std::size_t bytes, int timeout_ms) noexcept {
  const std::int64_t end_ms = monotonic_ms() + timeout_ms;
  for (std::size_t come = 0; come < bytes;) {
    const std::int64_t left_ms = end_ms - monotonic_ms();
    if (left_ms <= 0 || !becomes(POLLIN, socket, static_cast<int>(left_ms))) return false;
    const ssize_t count = recv(socket, static_cast<char*>(data) + come, bytes - come, MSG_DONTWAIT);
    if (count <= 0) return false;
    come += static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace bascule
