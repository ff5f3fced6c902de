// SPDX-License-Identifier: Apache-2.0
// The allocation guard. After the seal our code allocates nothing on any thread: operator new and malloc, called from
// this program's own code, end it with a line that names the place. Allocations by libraries are permitted and counted
// by library.
//
// The return address tells whose call it is: addresses inside this program's image (with its own instances of
// templates, and what the C++ library does on its behalf) are ours. Not built into sanitizer builds, which replace the
// allocator themselves.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bascule {

// Memory is sealed before replay and opened again after it. While it is sealed an allocation of ours ends the program.
void seal_memory() noexcept;
void open_memory() noexcept;
bool is_sealed() noexcept;

struct ForeignAllocations {
  const char* library = nullptr;  // file name, as the loader knows it
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
};

// Allocations by libraries since the seal. Returns how many entries were written.
std::size_t foreign_allocations(ForeignAllocations* out, std::size_t capacity) noexcept;

// Whether this build guards.
bool guard_is_active() noexcept;

}  // namespace bascule
