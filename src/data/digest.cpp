// SPDX-License-Identifier: Apache-2.0
#include "src/data/digest.h"

#include <xxhash.h>

namespace bascule {

void Digest::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Digest::Digest() : state_(XXH3_createState()) { reset(); }

void Digest::reset() noexcept { XXH3_64bits_reset(state_.get()); }

void Digest::add(const void* data, std::size_t bytes) noexcept {
  if (bytes > 0) XXH3_64bits_update(state_.get(), data, bytes);
}

std::uint64_t Digest::value() const noexcept { return XXH3_64bits_digest(state_.get()); }

}  // namespace bascule
