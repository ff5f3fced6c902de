// SPDX-License-Identifier: Apache-2.0
// XXH3 digest of data that arrives in parts. noexcept, allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bascule {

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

}  // namespace bascule
