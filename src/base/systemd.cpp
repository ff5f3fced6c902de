// SPDX-License-Identifier: Apache-2.0
#include "src/base/systemd.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace bascule {

NotifySocket NotifySocket::from_environment() {
  NotifySocket notify;
  const char* const name = std::getenv("NOTIFY_SOCKET");
  const std::size_t length = name == nullptr ? 0 : std::strlen(name);
  const bool is_usable = length > 1 && length < sizeof notify.address_.sun_path && (name[0] == '/' || name[0] == '@');
  if (!is_usable) return notify;
  notify.address_.sun_family = AF_UNIX;
  std::memcpy(notify.address_.sun_path, name, length);
  if (name[0] == '@') notify.address_.sun_path[0] = '\0';
  const std::size_t end = name[0] == '@' ? length : length + 1;  // a path's zero byte belongs to it
  notify.address_bytes_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + end);
  notify.socket_ = Descriptor(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const char* const watchdog = std::getenv("WATCHDOG_USEC");
  if (watchdog != nullptr) notify.watchdog_ms_ = std::strtoll(watchdog, nullptr, 10) / 1000;
  return notify;
}

void NotifySocket::send(std::string_view text) const noexcept {
  if (!socket_.is_open()) return;
  const int saved = errno;
  (void)sendto(socket_.number(), text.data(), text.size(), MSG_NOSIGNAL,
               static_cast<const sockaddr*>(static_cast<const void*>(&address_)), address_bytes_);
  errno = saved;
}

void say_ready() { NotifySocket::from_environment().send("READY=1\nSTATUS=nothing is left to do\n"); }

const char* journal_error_mark() noexcept {
  if (std::getenv("BASCULE_LAUNCHER") != nullptr) return kErrorMark;
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat facts = {};
  if (stream == nullptr || fstat(STDERR_FILENO, &facts) != 0) return "";
  char* end = nullptr;
  const unsigned long long device = std::strtoull(stream, &end, 10);
  if (*end != ':') return "";
  const unsigned long long inode = std::strtoull(end + 1, nullptr, 10);
  return device == facts.st_dev && inode == facts.st_ino ? kErrorMark : "";
}

}  // namespace bascule
