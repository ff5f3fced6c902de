// SPDX-License-Identifier: Apache-2.0
// From pixels to image rows. Source: BridgeTowerVisionEmbeddings.forward.
#pragma once

#include <cstdint>

#include "kernels/elements.h"

namespace bascule {

// One sample's picture (channels, height, width) cut into patches, left to right, top to bottom; the rest is cut off.
// out[i, (c P + y) P + x] = pixels[c, P (i / across) + y, P (i % across) + x],   across = width / P
// Shapes: out ((height / P) (width / P), channels P P) dense. Overwrites out.
struct ExtractPatches {
  Elements out;
  const float* pixels;
  std::int64_t channels, height, width, patch;
};

// One sample: out[0,:] = class_row + position[0,:];  out[1+i,:] = patch[i,:] + position[1+i,:].
// Shapes: out (patches + 1, cols); patch (patches, cols); position (patches + 1, cols); class_row (cols).
// Overwrites out.
struct ImageEmbeddingForward {
  float* out;
  const float* patch;
  const float* class_row;
  const float* position;
  std::int64_t patches, cols;
};

// Rows first_row <= i < last_row of the position table over all samples, in their order:
//   d_position[i,:] (+)= sum_b d_out[b,i,:];  d_class (+)= the same sum for i = 0;  d_patch[b,i-1,:] = d_out[b,i,:]
// Shapes: d_out (samples, patches + 1, cols); d_patch (samples, patches, cols). Null outputs are skipped.
// `accumulate_*`: add to what is there, else overwrite.
struct ImageEmbeddingBackward {
  float* d_patch;
  float* d_class;
  float* d_position;
  const float* d_out;
  std::int64_t samples, patches, cols;
  std::int64_t first_row, last_row;
  bool accumulate_class, accumulate_position;
};

}  // namespace bascule
