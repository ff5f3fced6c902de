// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

#include <algorithm>

namespace bascule {
namespace {

std::int64_t whole_vectors(std::int64_t count) { return (count + 15) / 16 * 16; }
std::int64_t whole_odd_vectors(std::int64_t count) { return ((count + 15) / 16 | 1) * 16; }

}  // namespace

// Room for the packed blocks and sums of attention_forward: of lanes over queries (simd/attention.cpp). Lanes over keys
// (simd/attention_over_keys.h) need less: of at most 48 rows, with keys and width as here and stride below keys + 16,
// stride (head_size + rows) + keys width + 3 rows width.
std::int64_t attention_forward_scratch_floats(std::int64_t key_rows, std::int64_t head_size) {
  const std::int64_t keys = whole_vectors(std::min(key_rows, kAttentionKeyBlock)), width = whole_vectors(head_size);
  const std::int64_t blocks =
      key_rows <= kAttentionKeyBlock ? 1 : (kAttentionQueryGroup + kAttentionQueryBlock - 1) / kAttentionQueryBlock;
  return keys * (head_size + width + kAttentionQueryBlock + 1) +
         kAttentionQueryBlock * (kAttentionPieceKeys + 1 + head_size + (1 + blocks) * width) + 16 * width;
}

// Room for the packed blocks of attention_backward in simd/attention_backward.cpp.
std::int64_t attention_backward_scratch_floats(std::int64_t key_rows, std::int64_t head_size) {
  const std::int64_t stride = whole_odd_vectors(key_rows), width = whole_vectors(head_size);
  return 2 * head_size * stride + 3 * key_rows * width + kAttentionQueryBlock * (2 * stride + 3 * width);
}

}  // namespace bascule
