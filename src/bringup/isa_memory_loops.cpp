// SPDX-License-Identifier: Apache-2.0
// The loops of one instruction set: compiled once for each, in its namespace.
#include "src/bringup/memory_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bascule::BASCULE_ISA {
namespace {

#if defined(__AVX512F__)
using Lanes = __m512i;
inline void store_around_caches(Lanes* to, Lanes value) { _mm512_stream_si512(to, value); }
#elif defined(__AVX__)
using Lanes = __m256i;
inline void store_around_caches(Lanes* to, Lanes value) { _mm256_stream_si256(to, value); }
#else
typedef std::int64_t Lanes __attribute__((vector_size(16)));
inline void store_around_caches(Lanes* to, Lanes value) { *to = value; }
#endif

constexpr std::size_t kUnrolled = 4;

// Keeps the compiler from putting memset() or memcpy() in the place of a loop, which choose their stores by size.
inline void as_written() { asm volatile("" ::: "memory"); }

inline Lanes* lanes(std::byte* at) { return static_cast<Lanes*>(static_cast<void*>(at)); }
inline const Lanes* lanes(const std::byte* at) { return static_cast<const Lanes*>(static_cast<const void*>(at)); }

void read(const std::byte* from, std::size_t bytes) {
  const Lanes* const in = lanes(from);
  Lanes sums[kUnrolled] = {};
  for (std::size_t i = 0; i < bytes / sizeof(Lanes); i += kUnrolled) {
    for (std::size_t lane = 0; lane < kUnrolled; ++lane) sums[lane] ^= in[i + lane];
  }
  const Lanes sum = sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
  asm volatile("" ::"m"(sum));
}

void write(std::byte* to, std::size_t bytes) {
  Lanes* const out = lanes(to);
  const Lanes value = {3};
  for (std::size_t i = 0; i < bytes / sizeof(Lanes); i += kUnrolled) {
    for (std::size_t lane = 0; lane < kUnrolled; ++lane) out[i + lane] = value;
    as_written();
  }
}

void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  Lanes* const out = lanes(to);
  const Lanes* const in = lanes(from);
  for (std::size_t i = 0; i < bytes / sizeof(Lanes); i += kUnrolled) {
    for (std::size_t lane = 0; lane < kUnrolled; ++lane) out[i + lane] = in[i + lane];
    as_written();
  }
}

void write_around_caches(std::byte* to, std::size_t bytes) {
  Lanes* const out = lanes(to);
  const Lanes value = {3};
  for (std::size_t i = 0; i < bytes / sizeof(Lanes); ++i) store_around_caches(out + i, value);
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

std::uint64_t mix_in_a_row(std::int64_t steps) {
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

}  // namespace

extern const MemoryLoops kMemoryLoops;
const MemoryLoops kMemoryLoops = {read, write, copy, write_around_caches, mix_in_a_row};

}  // namespace bascule::BASCULE_ISA
