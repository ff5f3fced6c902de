// SPDX-License-Identifier: Apache-2.0
#include "src/models/diffusion_layers.h"

namespace bascule {

DiffusionRecorder::DiffusionRecorder(Graph& target, const std::vector<std::string>& frozen_names,
                                     std::int64_t norm_groups)
    : Recorder{target, frozen_names}, groups(norm_groups) {}

Tensor convolution_weight(Recorder& r, const std::string& name, std::int64_t out, std::int64_t in) {
  return r.shaped(name + ".weight", {out, in, 3, 3}, out, r.deviation, {0, 2, 3, 1});
}

PictureRows convolution_3x3(DiffusionRecorder& r, const std::string& name, const PictureRows& x, std::int64_t out,
                            std::int64_t stride, Tensor bias) {
  const Tensor weight = convolution_weight(r, name, out, r.channels(x));
  if (!bias) bias = r.bias(name + ".bias", out);
  ConvolutionShape shape;
  shape.height = x.height;
  shape.width = x.width;
  shape.stride = stride;
  return {convolution(r.graph, name, x.x, weight, bias, shape), (x.height - 1) / stride + 1,
          (x.width - 1) / stride + 1};
}

PictureRows upsampled(DiffusionRecorder& r, const std::string& name, const PictureRows& x, std::int64_t height,
                      std::int64_t width) {
  const std::int64_t channels = r.channels(x);
  ConvolutionShape shape;
  shape.height = x.height;
  shape.width = x.width;
  shape.enlarged_height = height;
  shape.enlarged_width = width;
  return {convolution(r.graph, name, x.x, convolution_weight(r, name, channels, channels),
                      r.bias(name + ".bias", channels), shape),
          height, width};
}

Tensor convolution_1x1(Recorder& r, const std::string& name, Tensor x, std::int64_t out) {
  const Tensor weight = r.shaped(name + ".weight", {out, r.graph[x].cols, 1, 1}, out, r.deviation);
  return linear(r.graph, name, x, weight, r.bias(name + ".bias", out));
}

Tensor group_normed(DiffusionRecorder& r, const std::string& name, Tensor x, float epsilon, bool silu) {
  const std::int64_t cols = r.graph[x].cols;
  const Tensor weight = r.row(name + ".weight", cols, {1.0f, 0.0f}, false);
  return group_norm(r.graph, name, x, weight, r.bias(name + ".bias", cols), r.groups, epsilon, silu);
}

PictureRows residual_block(DiffusionRecorder& r, const std::string& name, const PictureRows& x, std::int64_t out,
                           float epsilon, Tensor time) {
  r.graph.set_scope(name);
  // The time's term is the same for every pixel, as a bias is.
  const std::string first = name + ".conv1";
  Tensor bias;
  if (time) {
    const Tensor term = dense(r, name + ".time_emb_proj", time, out);
    bias = add(r.graph, first + ".time", term, r.bias(first + ".bias", out));
  }
  PictureRows h = x;
  h.x = group_normed(r, name + ".norm1", x.x, epsilon, true);
  h = convolution_3x3(r, first, h, out, 1, bias);
  h.x = group_normed(r, name + ".norm2", h.x, epsilon, true);
  h = convolution_3x3(r, name + ".conv2", h, out);
  const Tensor shortcut = r.channels(x) == out ? x.x : convolution_1x1(r, name + ".conv_shortcut", x.x, out);
  h.x = add(r.graph, name, h.x, shortcut);
  return h;
}

}  // namespace bascule
