// SPDX-License-Identifier: Apache-2.0
// In a library of its own: where the compiler sees both a replaced operator and its caller, it warns of free() after
// new.
#include "tests/support/count_allocations.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> calls{0};

void* counted(std::size_t bytes) noexcept {
  calls.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes > 0 ? bytes : 1);
}

}  // namespace

void* operator new(std::size_t bytes) {
  void* const memory = counted(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// std::stable_sort asks for its buffer with this one.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace bascule::test {

std::int64_t allocations() noexcept { return calls.load(std::memory_order_relaxed); }

}  // namespace bascule::test
