// SPDX-License-Identifier: Apache-2.0
// From pixels to image rows. Source: BridgeTowerVisionEmbeddings.forward, ViTEmbeddings.forward,
// DeiTEmbeddings.forward.
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

// One sample, whose rows are its patches behind f = class_rows others, which all samples share:
//   out[i,:] = class_row[i,:] + position[i,:] for i < f;  out[f+i,:] = patch[i,:] + position[f+i,:]
// Shapes: out (patches + f, cols); patch (patches, cols); position (patches + f, cols); class_row (f, cols).
// Overwrites out.
struct ImageEmbeddingForward {
  float* out;
  const float *patch, *class_row, *position;
  std::int64_t patches, cols, class_rows;
};

// Rows first_row <= i < last_row of the position table over all samples, in their order; f = class_rows:
//   d_position[i,:] (+)= sum_b d_out[b,i,:];  d_class[i,:] (+)= the same sum for i < f;
//   d_patch[b,i-f,:] = d_out[b,i,:] for i >= f
// Shapes: d_out (samples, patches + f, cols); d_patch (samples, patches, cols); d_class (f, cols). Null outputs are
// skipped.
// `accumulate_*`: add to what is there, else overwrite.
struct ImageEmbeddingBackward {
  float *d_patch, *d_class, *d_position;
  const float* d_out;
  std::int64_t samples, patches, cols, class_rows;
  std::int64_t first_row, last_row;
  bool accumulate_class, accumulate_position;
};

}  // namespace bascule
