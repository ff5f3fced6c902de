// SPDX-License-Identifier: Apache-2.0
// Sockets between processes: Unix sockets on a machine, TCP between machines.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "src/base/descriptor.h"

namespace bascule {

// Unix sockets with abstract addresses: names that live as long as the socket, in no file system. Only processes of the
// same user are let in. Before the seal; a closed descriptor, or false, stands for what did not happen in time.

// Throws Error kRank where the address is taken.
Descriptor listen_at(const std::string& name);
// Tries until somebody listens there, at most timeout_ms.
Descriptor connect_to(const std::string& name, int timeout_ms);
Descriptor accept_from(int listening, int timeout_ms);
bool write_number(int socket, std::int32_t number) noexcept;
bool read_number(int socket, std::int32_t* number, int timeout_ms) noexcept;
// A name that nobody else has.
std::string fresh_name();

// TCP between the machines of a run: where one listens, in a form that fits a message, and connections to it. Before
// the seal; a closed descriptor, or false, stands for what did not happen in time.

// All addresses of a machine that others may reach it at, with the port, and a number that only this run knows.
struct MeetingPoint {
  static constexpr int kMost = 16;
  std::uint64_t token[2];
  std::int32_t addresses;
  std::int32_t unused;
  sockaddr_storage address[kMost];
};

class TcpListener {
 public:
  TcpListener();  // throws Error kRank
  MeetingPoint point() const;
  Descriptor accept(int timeout_ms) const;

 private:
  Descriptor socket_;
  std::uint16_t port_ = 0;  // in the order of the network
  std::uint64_t token_[2] = {0, 0};
};

Descriptor connect_to_address(const MeetingPoint& point, int number, int timeout_ms);
bool send_all(int socket, const void* data, std::size_t bytes) noexcept;
bool receive_all(int socket, void* data, std::size_t bytes, int timeout_ms) noexcept;

}  // namespace bascule
