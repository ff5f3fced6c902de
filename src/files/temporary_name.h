// SPDX-License-Identifier: Apache-2.0
// How files are called while they are being written: what a killed program leaves is known by it, and cleared away.
#pragma once

namespace bascule {

// .tmp-bascule-config.json becomes config.json. Long enough that nobody else's file begins so.
inline constexpr char kTemporaryPrefix[] = ".tmp-bascule-";

}  // namespace bascule
