// SPDX-License-Identifier: Apache-2.0
// Streams of rows in a batch, by number: its samples, its packed text tokens, and the text rows selected for a loss.
#pragma once

namespace bascule {

inline constexpr int kSampleStream = 0, kTextRowStream = 1, kSelectedRowStream = 2;

}  // namespace bascule
