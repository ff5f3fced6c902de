// SPDX-License-Identifier: Apache-2.0
// Layers that the UNet and the decoder of Stable Diffusion share. Pictures are rows: a sample's height * width pixels,
// row by row, with channels as columns. Equations: ResnetBlock2D, Downsample2D, Upsample2D and Attention of Diffusers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/models/recorder.h"

namespace bascule {

// Pictures of one size.
struct PictureRows {
  Tensor x;  // (samples * height * width, channels)
  std::int64_t height = 0, width = 0;
};

struct DiffusionRecorder : Recorder {
  DiffusionRecorder(Graph& target, const std::vector<std::string>& frozen, std::int64_t norm_groups);

  std::int64_t groups;  // of every group norm
  std::int64_t channels(const PictureRows& rows) const { return graph[rows.x].cols; }
};

// A convolution's weight (out, in, 3, 3) as rows of (3, 3, in): column tap * in + channel.
Tensor convolution_weight(Recorder& r, const std::string& name, std::int64_t out, std::int64_t in);

// 3 x 3, with name.weight and name.bias; bias: in place of name.bias, where there is one.
PictureRows convolution_3x3(DiffusionRecorder& r, const std::string& name, const PictureRows& x, std::int64_t out,
                            std::int64_t stride = 1, Tensor bias = {});
// Enlarges pictures to that size (nearest) and convolves them.
PictureRows upsampled(DiffusionRecorder& r, const std::string& name, const PictureRows& x, std::int64_t height,
                      std::int64_t width);
// 1 x 1: a product. The file's weight is (out, in, 1, 1).
Tensor convolution_1x1(Recorder& r, const std::string& name, Tensor x, std::int64_t out);

Tensor group_normed(DiffusionRecorder& r, const std::string& name, Tensor x, float epsilon, bool silu);

// shortcut(x) + conv2(silu(norm2(conv1(silu(norm1(x))) + time_emb_proj(time))))
// time (1, width): silu of the time's embedding, one for all samples; none: without that term. The shortcut is
// conv_shortcut (1 x 1) where channels change.
PictureRows residual_block(DiffusionRecorder& r, const std::string& name, const PictureRows& x, std::int64_t out,
                           float epsilon, Tensor time);

}  // namespace bascule
