// SPDX-License-Identifier: Apache-2.0
// Replaces operator new of the executable it is linked into by one that counts.
#pragma once

namespace bascule::test {

// Calls of operator new so far, on any thread.
long allocations() noexcept;

}  // namespace bascule::test
