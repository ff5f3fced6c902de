// SPDX-License-Identifier: Apache-2.0
// Digests of data that arrives in parts: XXH3 and SHA-256.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace bascule {

// XXH3 digest of data that arrives in parts. noexcept, allocates nothing.

// XXH3 of data that is there at once.
std::uint64_t digest_of(const void* data, std::size_t bytes) noexcept;

class Digest {
 public:
  Digest() noexcept;

  void reset() noexcept;
  void add(const void* data, std::size_t bytes) noexcept;
  void add_number(std::uint64_t number) noexcept { add(&number, sizeof number); }
  // The digest of all data added so far.
  std::uint64_t value() const noexcept;

 private:
  alignas(64) unsigned char state_[576];  // an XXH3_state_t: the library's header is for digest.cpp alone
};

// SHA-256 of data that arrives in parts, for what other programs check too (sha256sum, SPDX). Source: FIPS 180-4.
// noexcept, allocates nothing, but for hex().
//
// Uses the processor's SHA instructions where it has them: eight times as fast.
//
//   Sha256 sum;
//   sum.add(bytes, count);
//   sum.hex();  // ends the sum

class Sha256 {
 public:
  explicit Sha256(bool uses_instructions = has_instructions()) : uses_instructions_(uses_instructions) {}

  // Whether this processor has what it takes.
  static bool has_instructions() noexcept;

  void add(const void* data, std::size_t bytes) noexcept;
  // Ends the sum, once.
  void end(unsigned char (&sum)[32]) noexcept;
  // The same as 64 hexadecimal digits.
  std::string hex();

 private:
  void add_blocks(const unsigned char* data, std::size_t blocks) noexcept;

  bool uses_instructions_;
  std::uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  unsigned char rest_[64] = {};  // the begun block
  std::uint64_t bytes_ = 0;
};

}  // namespace bascule
