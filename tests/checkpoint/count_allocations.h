// SPDX-License-Identifier: Apache-2.0
// Counts what this test program allocates with operator new, which count_allocations.cpp replaces.
#pragma once

namespace bascule::test {

int allocations();

}  // namespace bascule::test
