// SPDX-License-Identifier: Apache-2.0
// A share of a manifest's rows that is held out for validation. A row is held out by the digest of what it is about:
// the bytes of its picture, or else its text. So rows of one picture stay together, and rows that are added move no
// others. Before the seal.
#pragma once

#include <cstdint>
#include <vector>

#include "src/index/manifest.h"
#include "src/index/open_manifest.h"

namespace bascule {

// Whether something with this digest is held out. share: 0 to less than 1.
bool is_held_out(std::uint64_t digest, double share);

// By row. The manifest is measured. Throws Error{kData} as picture_digests().
std::vector<bool> held_out_rows(const Manifest& manifest, double share, const IndexCache& cache);

// Some rows of a manifest, ascending and at least one, as a manifest of their own: with the pictures that they show,
// numbered anew, and with all classes of the whole. Nothing is taken out of the whole.
Manifest part_of(const Manifest& whole, const std::vector<std::int64_t>& rows);

}  // namespace bascule
