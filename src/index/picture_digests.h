// SPDX-License-Identifier: Apache-2.0
// The digests of all pictures of a manifest. Reading them all takes as long as reading the files does, so the answer is
// cached beside the index (open_manifest.h) of as many rows as that, and holds while the index does: as long as the
// manifest and the sizes of its pictures are the same; of a folder of classes, as long as no picture changes. Before
// the seal.
#pragma once

#include <cstdint>
#include <vector>

#include "src/index/manifest.h"
#include "src/index/open_manifest.h"

namespace bascule {

// By picture; of a missing one the digest of its path. The manifest is measured. Throws Error{kData} naming the row
// whose picture cannot be read.
std::vector<std::uint64_t> picture_digests(const Manifest& manifest, const IndexCache& cache);

}  // namespace bascule
