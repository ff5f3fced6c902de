// SPDX-License-Identifier: Apache-2.0
#include "src/base/digest.h"

#include <new>

#define XXH_STATIC_LINKING_ONLY  // the size of a state
#include <xxhash.h>

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

}  // namespace bascule
