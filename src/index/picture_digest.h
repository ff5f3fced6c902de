// SPDX-License-Identifier: Apache-2.0
// The digest of a picture's file, as runs record it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace bascule {

// XXH3 of the bytes. Never 0, which stands for a picture that was not read. noexcept, allocates nothing.
std::uint64_t picture_digest(const void* file, std::size_t bytes) noexcept;

// The digest of a picture, taken when a worker first reads it; 0: not read yet. Ranks that share memory share these.
using PictureDigest = std::atomic<std::uint64_t>;

}  // namespace bascule
