// SPDX-License-Identifier: Apache-2.0
#include "tests/firmware_shims/malloc_counter.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

#include "tests/support/sanitized.h"

namespace {

std::atomic<std::uint64_t> calls{0};

}  // namespace

namespace bascule::test {

#ifdef BASCULE_TEST_IS_SANITIZED
bool mallocs_are_counted() { return false; }
#else
bool mallocs_are_counted() { return true; }
#endif
std::uint64_t malloc_calls() { return calls.load(); }

}  // namespace bascule::test

#ifndef BASCULE_TEST_IS_SANITIZED
extern "C" {

void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* old, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  ++calls;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  ++calls;
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  ++calls;
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  ++calls;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  ++calls;
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}

}  // extern "C"
#endif
