// SPDX-License-Identifier: Apache-2.0
// In a file of its own: where the compiler sees both a replaced operator and its caller, it warns of free() after new.
#include "tests/plan/peak_memory.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {

// The test runs one thread.
long held = 0, start = 0, most = 0;

void* counted(std::size_t bytes) noexcept {
  void* const memory = std::malloc(bytes > 0 ? bytes : 1);
  held += static_cast<long>(malloc_usable_size(memory));
  most = std::max(most, held);
  return memory;
}

void release(void* memory) noexcept {
  held -= static_cast<long>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) {
  void* const memory = counted(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory); }

namespace bascule::test {

void watch_memory() noexcept { start = most = held; }
std::size_t peak_bytes_since_watch() noexcept { return static_cast<std::size_t>(most - start); }

}  // namespace bascule::test
