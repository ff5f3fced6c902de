// SPDX-License-Identifier: Apache-2.0
#include "firmware_shims/codec/webp_memory.h"

#include <cstring>

namespace bascule::codec {
namespace {

thread_local WebpMemory* memory_of_thread = nullptr;

}  // namespace

WebpMemory::WebpMemory(Arena* arena, std::jmp_buf* gives_up) noexcept : arena_(arena), gives_up_(gives_up) {
  memory_of_thread = this;
}

WebpMemory::~WebpMemory() { memory_of_thread = nullptr; }

void* WebpMemory::take(std::uint64_t count, std::size_t bytes) noexcept {
  std::size_t total = 0;
  void* const memory = __builtin_mul_overflow(count, bytes, &total) ? nullptr : arena_->take(total);
  if (memory == nullptr) std::longjmp(*gives_up_, 1);
  return memory;
}

}  // namespace bascule::codec

extern "C" {
void* WebPSafeMalloc(std::uint64_t count, std::size_t bytes);
void* WebPSafeCalloc(std::uint64_t count, std::size_t bytes);
void WebPSafeFree(void* memory);

void* WebPSafeMalloc(std::uint64_t count, std::size_t bytes) {
  using bascule::codec::memory_of_thread;
  return memory_of_thread == nullptr ? nullptr : memory_of_thread->take(count, bytes);
}

void* WebPSafeCalloc(std::uint64_t count, std::size_t bytes) {
  void* const memory = WebPSafeMalloc(count, bytes);
  if (memory != nullptr) std::memset(memory, 0, count * bytes);
  return memory;
}

void WebPSafeFree(void*) {}
}
