// SPDX-License-Identifier: Apache-2.0
// Replaces operator new of the executable it is linked into by one that counts.
#pragma once

#include <cstdint>

namespace bascule::test {

// Calls of operator new so far, on any thread.
std::int64_t allocations() noexcept;

}  // namespace bascule::test
