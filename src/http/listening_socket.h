// SPDX-License-Identifier: Apache-2.0
// The socket that a server listens on: inherited, of an address, or of a path.
#pragma once

#include <string>

#include "src/base/descriptor.h"

namespace bascule {

struct ListeningSocket {
  Descriptor socket;     // does not block
  std::string address;   // "127.0.0.1:3000", "[::1]:3000", "unix:PATH", "inherited"
  bool is_local = true;  // nobody on another machine reaches it
  bool is_inherited = false;
  std::string path;  // of a Unix socket that was made here, to be removed in the end
};

// listen: "HOST:PORT" with a numerical address, "[IPv6]:PORT" or "unix:PATH"; a socket that systemd hands over
// ($LISTEN_FDS) is taken instead. may_be_remote: whether others than this machine may reach it. Throws
// Error{kSettings}.
ListeningSocket open_listening_socket(const std::string& listen, bool may_be_remote);
// Whether that would work now, of a server that is to be made later. Throws Error{kSettings}.
void try_listening(const std::string& listen, bool may_be_remote);

}  // namespace bascule
