// SPDX-License-Identifier: Apache-2.0
#include "src/http/listening_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "src/base/error.h"

namespace bascule {
namespace {

constexpr int kWaiting = 1024;      // connections that wait to be accepted; the system's own limit may be lower
constexpr int kFirstInherited = 3;  // sd_listen_fds(3)
constexpr char kUnix[] = "unix:";

[[noreturn]] void refuse(const std::string& listen, const std::string& why, const std::string& what_to_do = "") {
  throw Error(ErrorKind::kSettings, "serve.listen = \"" + listen + '"', why, what_to_do);
}

[[noreturn]] void refuse_with_reason(const std::string& listen) {
  const int reason = errno;
  refuse(listen, std::string("cannot listen there: ") + std::strerror(reason),
         reason == EADDRINUSE ? "stop the program that does, or name another port" : "");
}

// Made with the length of its kind.
struct Address {
  sockaddr_storage bytes = {};
  socklen_t size = 0;

  sockaddr* any() { return static_cast<sockaddr*>(static_cast<void*>(&bytes)); }
  template <typename Kind>
  Kind* as() {
    size = sizeof(Kind);
    return static_cast<Kind*>(static_cast<void*>(&bytes));
  }
};

Address address_of(const std::string& listen) {
  Address address;
  if (listen.rfind(kUnix, 0) == 0) {
    const std::string path = listen.substr(sizeof kUnix - 1);
    auto* unix_address = address.as<sockaddr_un>();
    unix_address->sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof unix_address->sun_path)
      refuse(listen, "a path of a socket has 1 to 107 bytes");
    path.copy(unix_address->sun_path, path.size());
    return address;
  }
  const std::size_t colon = listen.rfind(':');
  std::string host = listen.substr(0, colon);
  int port = -1;
  if (colon != std::string::npos) {
    const char *begin = listen.data() + colon + 1, *end = listen.data() + listen.size();
    const auto [stop, error] = std::from_chars(begin, end, port);
    if (error != std::errc() || stop != end || port > 65535) port = -1;
  }
  if (host == "localhost") host = "127.0.0.1";
  const auto net_port = htons(static_cast<std::uint16_t>(port));
  auto* v4 = address.as<sockaddr_in>();
  if (port >= 0 && inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = net_port;
    return address;
  }
  auto* v6 = address.as<sockaddr_in6>();
  const bool has_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (port < 0 || !has_brackets || inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &v6->sin6_addr) != 1)
    refuse(listen, "no address that can be listened on", "write \"127.0.0.1:3000\", \"[::1]:3000\" or \"unix:PATH\"");
  v6->sin6_family = AF_INET6;
  v6->sin6_port = net_port;
  return address;
}

// A socket that its server left when it was killed: nobody listens there any more.
void remove_left_socket(const std::string& listen, Address* address) {
  const std::string path = listen.substr(sizeof kUnix - 1);
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0) return;
  if (!S_ISSOCK(info.st_mode)) refuse(listen, "a file that is no socket lies there", "name another path");
  const Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(probe.number(), address->any(), address->size) == 0 || errno != ECONNREFUSED)
    refuse(listen, "another server listens there", "stop it or name another path");
  ::unlink(path.c_str());
}

// Whether nobody on another machine reaches it, and its address as text.
void describe(ListeningSocket* listening) {
  Address address;
  address.size = sizeof address.bytes;
  if (::getsockname(listening->socket.number(), address.any(), &address.size) != 0) return;
  char text[INET6_ADDRSTRLEN] = "";
  if (address.bytes.ss_family == AF_INET) {
    const auto* v4 = address.as<sockaddr_in>();
    listening->is_local = ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
    listening->address = text + (':' + std::to_string(ntohs(v4->sin_port)));
  } else if (address.bytes.ss_family == AF_INET6) {
    const auto* v6 = address.as<sockaddr_in6>();
    listening->is_local = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) != 0;
    inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
    listening->address = std::string("[") + text + "]:" + std::to_string(ntohs(v6->sin6_port));
  } else {
    listening->address = kUnix + std::string(address.as<sockaddr_un>()->sun_path);
  }
}

// sd_listen_fds(3): whether there are sockets for this process.
bool has_inherited() {
  const char* const process = std::getenv("LISTEN_PID");
  return process != nullptr && std::getenv("LISTEN_FDS") != nullptr && std::to_string(::getpid()) == process;
}

// One is expected.
bool take_inherited(ListeningSocket* listening) {
  if (!has_inherited()) return false;
  const char* const count = std::getenv("LISTEN_FDS");
  int listens = 0;
  socklen_t bytes = sizeof listens;
  if (std::strcmp(count, "1") != 0 || ::getsockopt(kFirstInherited, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) != 0 ||
      listens == 0)
    throw Error(ErrorKind::kSettings, "LISTEN_FDS=" + std::string(count), "is not one socket that listens",
                "give the socket unit one ListenStream");
  ::fcntl(kFirstInherited, F_SETFD, FD_CLOEXEC);
  listening->socket = Descriptor(kFirstInherited);
  listening->is_inherited = true;
  return true;
}

void bind_socket(const std::string& listen, ListeningSocket* listening) {
  Address address = address_of(listen);
  const int family = address.bytes.ss_family, on = 1;
  if (family == AF_UNIX) remove_left_socket(listen, &address);
  listening->socket = Descriptor(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int socket = listening->socket.number();
  if (family != AF_UNIX) ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (socket < 0 || ::bind(socket, address.any(), address.size) != 0) refuse_with_reason(listen);
  if (family == AF_UNIX) listening->path = listen.substr(sizeof kUnix - 1);
}

}  // namespace

ListeningSocket open_listening_socket(const std::string& listen, bool may_be_remote) {
  ListeningSocket listening;
  if (!take_inherited(&listening)) bind_socket(listen, &listening);
  describe(&listening);
  if (!listening.is_local && !may_be_remote)
    refuse(
        listening.address, "other machines reach this address, and no key is asked for",
        "set serve.api_key_file, listen on 127.0.0.1 or a Unix socket, or set serve.allow_remote_without_key = true");
  const int socket = listening.socket.number(), on = 1;
  if (!listening.is_inherited && ::listen(socket, kWaiting) != 0) refuse_with_reason(listen);
  ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) | O_NONBLOCK);
  // What it accepts inherits this: an answer's last segment does not wait for an acknowledgement.
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return listening;
}

void try_listening(const std::string& listen, bool may_be_remote) {
  // The folder of a Unix socket may be made meanwhile.
  const bool is_unix = listen.rfind(kUnix, 0) == 0;
  const std::filesystem::path folder =
      std::filesystem::path(is_unix ? listen.substr(sizeof kUnix - 1) : "").parent_path();
  if (has_inherited() || (!folder.empty() && !std::filesystem::exists(folder))) return;
  const ListeningSocket tried = open_listening_socket(listen, may_be_remote);
  if (!tried.path.empty()) ::unlink(tried.path.c_str());
}

}  // namespace bascule
