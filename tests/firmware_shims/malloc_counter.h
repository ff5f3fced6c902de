// SPDX-License-Identifier: Apache-2.0
// Counts what the whole program takes from the system's heap, on all threads, libraries included. Linked only into the
// tests that ask; under a sanitizer, which has the heap for itself, nothing is counted.
#pragma once

#include <cstdint>

namespace bascule::test {

bool mallocs_are_counted();
// Calls of malloc, calloc, realloc and the aligned forms since the program began.
std::uint64_t malloc_calls();

}  // namespace bascule::test
