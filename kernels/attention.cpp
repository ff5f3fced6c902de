// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

#include <algorithm>

namespace bascule {
namespace {

std::int64_t whole_vectors(std::int64_t count) { return (count + 15) / 16 * 16; }
std::int64_t whole_odd_vectors(std::int64_t count) { return ((count + 15) / 16 | 1) * 16; }

}  // namespace

// What attention_forward of simd/attention.cpp packs and sums.
std::int64_t attention_forward_scratch_floats(std::int64_t key_rows, std::int64_t head_size) {
  const std::int64_t keys = std::min(key_rows, kAttentionKeyBlock), width = whole_vectors(head_size);
  const std::int64_t group = key_rows <= kAttentionKeyBlock ? kAttentionQueryBlock : kAttentionQueryGroup;
  const std::int64_t value_stride = width > 64 ? whole_odd_vectors(head_size) : width;
  return (head_size + kAttentionQueryBlock) * whole_odd_vectors(keys) + keys * value_stride +
         (2 * kAttentionQueryBlock + group) * width;
}

// What attention_backward of simd/attention_backward.cpp packs.
std::int64_t attention_backward_scratch_floats(std::int64_t key_rows, std::int64_t head_size) {
  const std::int64_t stride = whole_odd_vectors(key_rows), width = whole_vectors(head_size);
  return 2 * head_size * stride + 3 * key_rows * width + kAttentionQueryBlock * (2 * stride + 3 * width);
}

}  // namespace bascule
