// SPDX-License-Identifier: Apache-2.0
// How a service speaks to systemd: notifications and the journal's priorities.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <string_view>

#include "src/base/descriptor.h"

namespace bascule {

// Messages of a service to systemd (sd_notify(3)), by hand: a datagram of "KEY=value" lines to the socket that
// $NOTIFY_SOCKET names, a path or, with '@' in front, an abstract name. Without the variable every call does nothing.
// Made before the seal; send() may be called after it, by any thread: no allocation, a full socket is ignored.

class NotifySocket {
 public:
  NotifySocket() = default;  // says nothing
  static NotifySocket from_environment();

  bool is_open() const noexcept { return socket_.is_open(); }
  void send(std::string_view text) const noexcept;

  // Within which systemd wants to hear WATCHDOG=1 ($WATCHDOG_USEC); 0: it does not watch.
  std::int64_t watchdog_ms() const noexcept { return watchdog_ms_; }

 private:
  Descriptor socket_;
  sockaddr_un address_ = {};
  socklen_t address_bytes_ = 0;
  std::int64_t watchdog_ms_ = 0;
};

// READY=1 of a program that ends at once, as nothing is left to do: without it a unit of Type=notify has failed.
void say_ready();

// Priorities of lines on standard error that goes to systemd's journal: "<3>" in front (sd-daemon(3)). Allocates
// nothing.

inline constexpr char kErrorMark[] = "<3>";
// kErrorMark where standard error is the stream that $JOURNAL_STREAM names, or a pipe to the launcher of this rank,
// which knows where it goes on; else "". Lines without a mark have the unit's level, which is information.
const char* journal_error_mark() noexcept;

}  // namespace bascule
