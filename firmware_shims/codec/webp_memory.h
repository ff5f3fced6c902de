// SPDX-License-Identifier: Apache-2.0
// libwebp's memory, ours: what it asks for while it works on a picture comes out of that picture's arena. libwebp takes
// no memory manager, but calls its own WebPSafeMalloc, WebPSafeCalloc and WebPSafeFree as any program may: through the
// dynamic symbol table. This program defines the three, so the loader binds libwebp's calls to them. A thread that has
// no scope open gets no memory.
//
// libwebp 1.2 crashes at some places where it gets no memory. So it is never told: a jump leaves libwebp, and its
// memory stays in the arena. Sealed world.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>

#include "firmware_shims/codec/arena.h"

namespace bascule::codec {

// While it lives, libwebp in this thread takes memory from `arena`, and gives none back. If there is too little, it
// jumps to `gives_up`. One for each thread.
class WebpMemory {
 public:
  WebpMemory(Arena* arena, std::jmp_buf* gives_up) noexcept;
  ~WebpMemory();
  WebpMemory(const WebpMemory&) = delete;
  WebpMemory& operator=(const WebpMemory&) = delete;

  // `count` times `bytes` bytes. Does not return if there is too little.
  void* take(std::uint64_t count, std::size_t bytes) noexcept;

 private:
  Arena* arena_;
  std::jmp_buf* gives_up_;
};

}  // namespace bascule::codec
