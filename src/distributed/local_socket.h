// SPDX-License-Identifier: Apache-2.0
// Unix sockets with abstract addresses: names that live as long as the socket, in no file system. Only processes of the
// same user are let in. Before the seal; a closed descriptor, or false, stands for what did not happen in time.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/descriptor.h"

namespace bascule {

// Throws Error kRank where the address is taken.
Descriptor listen_at(const std::string& name);
// Tries until somebody listens there, at most timeout_ms.
Descriptor connect_to(const std::string& name, int timeout_ms);
Descriptor accept_from(int listening, int timeout_ms);
bool write_number(int socket, std::int32_t number) noexcept;
bool read_number(int socket, std::int32_t* number, int timeout_ms) noexcept;
// A name that nobody else has.
std::string fresh_name();

}  // namespace bascule
