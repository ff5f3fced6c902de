// SPDX-License-Identifier: Apache-2.0
// How often any thread of this test program has called operator new.
#pragma once

#include <cstdint>

namespace bascule::test {

std::int64_t allocations_so_far() noexcept;

}  // namespace bascule::test
