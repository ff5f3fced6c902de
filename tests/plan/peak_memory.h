// SPDX-License-Identifier: Apache-2.0
// Replaces operator new of the executable that it is linked into by one that knows how much is held.
#pragma once

#include <cstddef>

namespace bascule::test {

// Starts over: the most that is held from now on, beyond what is held now.
void watch_memory() noexcept;
std::size_t peak_bytes_since_watch() noexcept;

}  // namespace bascule::test
