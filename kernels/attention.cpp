// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

namespace bascule {

// The size that attention_backward of simd/attention.cpp packs; forward needs less.
std::int64_t attention_scratch_floats(std::int64_t key_rows, std::int64_t head_size) {
  const std::int64_t key_stride = ((key_rows + 15) / 16 | 1) * 16;
  const std::int64_t width = (head_size + 15) / 16 * 16;
  return 2 * head_size * key_stride + 3 * key_rows * width + kAttentionQueryBlock * (2 * key_stride + 3 * width);
}

}  // namespace bascule
