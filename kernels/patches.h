// SPDX-License-Identifier: Apache-2.0
// From pixels to image rows. Source: BridgeTowerVisionEmbeddings.forward, ViTEmbeddings.forward.
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

// One sample, whose rows are its patches, behind a class row where there is one (f = 1, else 0):
//   out[0,:] = class_row + position[0,:] where there is one;  out[f+i,:] = patch[i,:] + position[f+i,:]
// Shapes: out (patches + f, cols); patch (patches, cols); position (patches + f, cols); class_row (cols), or null.
// Overwrites out.
struct ImageEmbeddingForward {
  float* out;
  const float *patch, *class_row, *position;
  std::int64_t patches, cols;
};

// Rows first_row <= i < last_row of the position table over all samples, in their order; f = class_rows, 0 or 1:
//   d_position[i,:] (+)= sum_b d_out[b,i,:];  d_class (+)= the same sum for i < f;  d_patch[b,i-f,:] = d_out[b,i,:]
// Shapes: d_out (samples, patches + f, cols); d_patch (samples, patches, cols). Null outputs are skipped.
// `accumulate_*`: add to what is there, else overwrite.
struct ImageEmbeddingBackward {
  float *d_patch, *d_class, *d_position;
  const float* d_out;
  std::int64_t samples, patches, cols;
  std::int64_t first_row, last_row;
  bool accumulate_class, accumulate_position;
  std::int64_t class_rows = 1;
};

}  // namespace bascule
