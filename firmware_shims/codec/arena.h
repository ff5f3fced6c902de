// SPDX-License-Identifier: Apache-2.0
// The memory of one picture: a bump arena that forgets everything between pictures. Sealed world: noexcept, never
// allocates from the system.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bascule::codec {

constexpr std::size_t kArenaAlignment = 64;

constexpr std::size_t arena_rounded(std::size_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

struct Arena {
  std::uint8_t* base = nullptr;  // 64-byte aligned
  std::size_t size_bytes = 0;
  std::size_t used_bytes = 0;

  // 64-byte aligned, contents undefined; nullptr where it does not fit.
  void* take(std::size_t bytes) noexcept {
    if (bytes > size_bytes - used_bytes) return nullptr;
    const std::size_t at = used_bytes;
    const std::size_t rounded = arena_rounded(bytes);
    used_bytes = rounded > size_bytes - at ? size_bytes : at + rounded;
    return base + at;
  }
  // `count` elements of T, or nullptr.
  template <typename T>
  T* take_array(std::size_t count) noexcept {
    if (count > size_bytes / sizeof(T)) return nullptr;
    return static_cast<T*>(take(count * sizeof(T)));
  }
};

}  // namespace bascule::codec
