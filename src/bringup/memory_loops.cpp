// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/memory_loops.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bascule {
namespace {

// Keeps the compiler from putting memset() or memcpy() in the place of a loop, which choose stores by size.
inline void as_written() noexcept { asm volatile("" ::: "memory"); }

}  // namespace

#if defined(__x86_64__)

namespace {

inline __m128i* lanes(std::byte* at) noexcept { return static_cast<__m128i*>(static_cast<void*>(at)); }
inline const __m128i* lanes(const std::byte* at) noexcept {
  return static_cast<const __m128i*>(static_cast<const void*>(at));
}

}  // namespace

void read_memory_block(const std::byte* from, std::size_t bytes) noexcept {
  __m128i sums[4] = {};
  for (std::size_t i = 0; i < bytes; i += 64) {
    for (int lane = 0; lane < 4; ++lane) sums[lane] = _mm_xor_si128(sums[lane], _mm_load_si128(lanes(from + i) + lane));
  }
  asm volatile("" ::"x"(_mm_xor_si128(_mm_xor_si128(sums[0], sums[1]), _mm_xor_si128(sums[2], sums[3]))));
}

void write_memory_block(std::byte* to, std::size_t bytes) noexcept {
  const __m128i value = _mm_set1_epi8(3);
  for (std::size_t i = 0; i < bytes; i += 64) {
    for (int lane = 0; lane < 4; ++lane) _mm_store_si128(lanes(to + i) + lane, value);
    as_written();
  }
}

void copy_memory_block(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  for (std::size_t i = 0; i < bytes; i += 64) {
    for (int lane = 0; lane < 4; ++lane) _mm_store_si128(lanes(to + i) + lane, _mm_load_si128(lanes(from + i) + lane));
    as_written();
  }
}

void write_memory_block_around_caches(std::byte* to, std::size_t bytes) noexcept {
  const __m128i value = _mm_set1_epi8(3);
  for (std::size_t i = 0; i < bytes; i += 64) {
    for (int lane = 0; lane < 4; ++lane) _mm_stream_si128(lanes(to + i) + lane, value);
  }
  _mm_sfence();
}

#else

void read_memory_block(const std::byte* from, std::size_t bytes) noexcept {
  std::uint64_t sum = 0, word = 0;
  for (std::size_t i = 0; i < bytes; i += sizeof word) {
    std::memcpy(&word, from + i, sizeof word);
    sum ^= word;
  }
  asm volatile("" ::"r"(sum));
}

void write_memory_block(std::byte* to, std::size_t bytes) noexcept {
  std::memset(to, 3, bytes);
  as_written();
}

void copy_memory_block(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  std::memcpy(to, from, bytes);
  as_written();
}

void write_memory_block_around_caches(std::byte* to, std::size_t bytes) noexcept { write_memory_block(to, bytes); }

#endif

std::uint64_t mix_in_a_row(std::int64_t steps) noexcept {
  std::uint64_t sum = 0, other = 3;
  asm volatile("" : "+r"(other));  // its value is unknown to the compiler
  for (std::int64_t i = 0; i < steps; i += 8) {
    for (int step = 0; step < 8; ++step) {
      sum ^= other;
      asm volatile("" : "+r"(sum));
    }
  }
  return sum;
}

}  // namespace bascule
