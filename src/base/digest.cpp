// SPDX-License-Identifier: Apache-2.0
#include "src/base/digest.h"

#include <algorithm>
#include <cstring>
#include <new>

#define XXH_STATIC_LINKING_ONLY  // the size of a state
#include <xxhash.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace bascule {
namespace {

XXH3_state_t* state_at(unsigned char* memory) noexcept {
  return std::launder(static_cast<XXH3_state_t*>(static_cast<void*>(memory)));
}

}  // namespace

std::uint64_t digest_of(const void* data, std::size_t bytes) noexcept { return XXH3_64bits(data, bytes); }

Digest::Digest() noexcept {
  static_assert(sizeof(XXH3_state_t) == sizeof state_ && alignof(XXH3_state_t) <= alignof(Digest));
  new (state_) XXH3_state_t;
  reset();
}

void Digest::reset() noexcept { XXH3_64bits_reset(state_at(state_)); }

void Digest::add(const void* data, std::size_t bytes) noexcept {
  if (bytes > 0) XXH3_64bits_update(state_at(state_), data, bytes);
}

std::uint64_t Digest::value() const noexcept {
  return XXH3_64bits_digest(std::launder(static_cast<const XXH3_state_t*>(static_cast<const void*>(state_))));
}

namespace {

constexpr std::size_t kBlock = 64;
constexpr std::size_t kLengthBytes = 8;  // at the end of the last block

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t rotated(std::uint32_t value, int right) { return value >> right | value << (32 - right); }

std::uint32_t big_endian(const unsigned char* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

void add_block(std::uint32_t* state, const unsigned char* block) noexcept {
  std::uint32_t words[64];
  for (int i = 0; i < 16; ++i) words[i] = big_endian(block + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const std::uint32_t a = words[i - 15], b = words[i - 2];
    words[i] = words[i - 16] + (rotated(a, 7) ^ rotated(a, 18) ^ a >> 3) + words[i - 7] +
               (rotated(b, 17) ^ rotated(b, 19) ^ b >> 10);
  }
  std::uint32_t s[8];
  std::copy(state, state + 8, s);
  for (int i = 0; i < 64; ++i) {
    const std::uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
    const std::uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    const std::uint32_t first =
        s[7] + (rotated(s[4], 6) ^ rotated(s[4], 11) ^ rotated(s[4], 25)) + choice + kRounds[i] + words[i];
    const std::uint32_t second = (rotated(s[0], 2) ^ rotated(s[0], 13) ^ rotated(s[0], 22)) + majority;
    std::copy_backward(s, s + 7, s + 8);
    s[4] += first;
    s[0] = first + second;
  }
  for (int i = 0; i < 8; ++i) state[i] += s[i];
}

#if defined(__x86_64__)
// The instructions hold the state as two vectors, ABEF and CDGH, and do two rounds each. Source: Gulley et al., Intel
// SHA Extensions, 2013.
__attribute__((target("sha,sse4.1"))) void add_with_instructions(std::uint32_t* state, const unsigned char* data,
                                                                 std::size_t blocks) noexcept {
  const auto vector_at = [](const void* at) { return static_cast<const __m128i*>(at); };
  const __m128i big_endian_words = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i low = _mm_shuffle_epi32(_mm_loadu_si128(vector_at(state)), 0xB1);
  __m128i high = _mm_shuffle_epi32(_mm_loadu_si128(vector_at(state + 4)), 0x1B);
  __m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xF0);
  for (; blocks > 0; --blocks, data += kBlock) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i words[4];
    for (int i = 0; i < 4; ++i)
      words[i] = _mm_shuffle_epi8(_mm_loadu_si128(vector_at(data + 16 * i)), big_endian_words);
    for (int i = 0; i < 16; ++i) {
      __m128i& now = words[i % 4];
      const __m128i &next = words[(i + 1) % 4], &third = words[(i + 2) % 4], &last = words[(i + 3) % 4];
      __m128i sum = _mm_add_epi32(now, _mm_loadu_si128(vector_at(kRounds + 4 * i)));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0E));
      sum = _mm_add_epi32(_mm_sha256msg1_epu32(now, next), _mm_alignr_epi8(last, third, 4));
      now = _mm_sha256msg2_epu32(sum, last);
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  low = _mm_shuffle_epi32(abef, 0x1B);
  high = _mm_shuffle_epi32(cdgh, 0xB1);
  const auto output_at = [](void* at) { return static_cast<__m128i*>(at); };
  _mm_storeu_si128(output_at(state), _mm_blend_epi16(low, high, 0xF0));
  _mm_storeu_si128(output_at(state + 4), _mm_alignr_epi8(high, low, 8));
}
#else
void add_with_instructions(std::uint32_t*, const unsigned char*, std::size_t) noexcept {}
#endif

}  // namespace

bool Sha256::has_instructions() noexcept {
#if defined(__x86_64__)
  constexpr unsigned kSse41 = 1u << 19, kSha = 1u << 29;  // in ecx of leaf 1 and ebx of leaf 7
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kSse41) == 0) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & kSha) != 0;
#else
  return false;
#endif
}

void Sha256::add_blocks(const unsigned char* data, std::size_t blocks) noexcept {
  if (uses_instructions_) return add_with_instructions(state_, data, blocks);
  for (; blocks > 0; --blocks, data += kBlock) add_block(state_, data);
}

void Sha256::add(const void* data, std::size_t bytes) noexcept {
  const auto* at = static_cast<const unsigned char*>(data);
  const std::size_t begun = static_cast<std::size_t>(bytes_ % kBlock);
  bytes_ += bytes;
  if (begun > 0) {
    const std::size_t taken = std::min(bytes, kBlock - begun);
    std::memcpy(rest_ + begun, at, taken);
    if (begun + taken < kBlock) return;
    add_blocks(rest_, 1);
    at += taken;
    bytes -= taken;
  }
  add_blocks(at, bytes / kBlock);
  at += bytes / kBlock * kBlock;
  bytes %= kBlock;
  if (bytes > 0) std::memcpy(rest_, at, bytes);
}

void Sha256::end(unsigned char (&sum)[32]) noexcept {
  const std::uint64_t bits = bytes_ * 8;
  constexpr unsigned char kPadding[kBlock] = {0x80};
  const std::size_t begun = static_cast<std::size_t>(bytes_ % kBlock);
  const std::size_t end = begun < kBlock - kLengthBytes ? kBlock : 2 * kBlock;
  add(kPadding, end - kLengthBytes - begun);
  unsigned char length[kLengthBytes];
  for (std::size_t i = 0; i < kLengthBytes; ++i) length[i] = static_cast<unsigned char>(bits >> (56 - 8 * i));
  add(length, kLengthBytes);
  for (std::size_t i = 0; i < sizeof sum; ++i) sum[i] = static_cast<unsigned char>(state_[i / 4] >> (24 - 8 * (i % 4)));
}

std::string Sha256::hex() {
  unsigned char sum[32];
  end(sum);
  std::string text;
  for (const unsigned char byte : sum) {
    for (const int shift : {4, 0}) text += "0123456789abcdef"[byte >> shift & 15];
  }
  return text;
}

}  // namespace bascule
