// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/kernel_problems.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"

namespace bascule {
namespace {

using Kernels = const KernelTable&;

constexpr std::int64_t kLine = 16;  // floats of a cache line, to which the arrays of an arena are aligned

DropoutStream tenth() {
  DropoutStream stream;
  stream.threshold = 429496730;
  stream.scale = 1.0f / 0.9f;
  return stream;
}

std::string shape(std::int64_t R, std::int64_t C) { return " R=" + std::to_string(R) + " C=" + std::to_string(C); }

std::int64_t most_floats(const KernelSizes& s) {
  const std::int64_t most =
      std::max({8 * s.rows * s.width + 2 * s.rows + 4 * s.width, 3 * s.rows * s.feed_forward + s.feed_forward,
                4 * s.parameters, 2 * s.labelled * s.vocabulary + 3 * s.labelled,
                3 * s.pairs * s.embedding + s.pairs * s.pairs + 2 * s.pairs, 6 * s.image * s.image});
  return most + 24 * kLine;  // each array begins in a line of its own
}

}  // namespace

KernelProblems::KernelProblems(const KernelSizes& sizes)
    : floats_(static_cast<std::size_t>(most_floats(sizes))),
      keys_(static_cast<std::size_t>(sizes.rows), 77),
      index_(static_cast<std::size_t>(sizes.rows)),
      labels_(static_cast<std::size_t>(sizes.labelled), 5),
      hits_(static_cast<std::size_t>(sizes.labelled)) {
  for (std::size_t i = 0; i < index_.size(); ++i) index_[i] = static_cast<std::int32_t>(i * 7919 % index_.size());
  begin_ = (64 - reinterpret_cast<std::uintptr_t>(floats_.data()) % 64) % 64 / sizeof(float);
  add_layer_norms(sizes.rows, sizes.width);
  add_activations(sizes.rows, sizes.feed_forward);
  add_row_passes(sizes.rows, sizes.width);
  add_update(sizes.parameters);
  add_cross_entropy(sizes.labelled, sizes.vocabulary);
  add_contrastive(sizes.pairs, sizes.embedding);
  add_patches(sizes.image, sizes.patch);
  for (const Group& group : groups_) reset(group);
}

void KernelProblems::reset(const Group& group) {
  float* const first = floats_.data() + begin_;
  for (std::size_t i = 0; i < group.floats; ++i) first[i] = static_cast<float>(i % 1009) * 0.004f - 2.0f;
  for (const Group::Constant& constant : group.constants) std::fill_n(constant.first, constant.count, constant.value);
}

void KernelProblems::begin_group() {
  next_ = begin_;
  groups_.emplace_back();
}

void KernelProblems::end_group() { groups_.back().floats = next_ - begin_; }

float* KernelProblems::take(std::int64_t count, std::optional<float> value) {
  float* const first = floats_.data() + next_;
  next_ += static_cast<std::size_t>(align_up(count, kLine));
  BASCULE_CHECK(next_ <= floats_.size());
  if (value) groups_.back().constants.push_back({first, count, *value});
  return first;
}

void KernelProblems::add(const std::string& text, double bytes, std::function<void(const KernelTable&)> run) {
  groups_.back().problems.push_back({text, bytes, std::move(run)});
}

void KernelProblems::add_layer_norms(std::int64_t R, std::int64_t C) {
  begin_group();
  const double row_bytes = 4.0 * static_cast<double>(R * C);
  const std::uint64_t* const keys = keys_.data();
  float *y = take(R * C), *sum = take(R * C), *x = take(R * C), *h = take(R * C);
  float *mean = take(R), *rstd = take(R), *gamma = take(C), *beta = take(C);
  float *d_gamma = take(C), *d_beta = take(C), *d_x = take(R * C), *d_h = take(R * C);
  RowNormForward forward{y, nullptr, mean, rstd, x, nullptr, gamma, beta, keys, R, C, 1e-5f, {}};
  add("layer_norm_forward" + shape(R, C), 2 * row_bytes, [a = forward](Kernels k) { k.layer_norm_forward(a); });
  forward.sum = sum;
  forward.h = h;
  add("layer_norm_forward" + shape(R, C) + " residual=1", 4 * row_bytes,
      [a = forward](Kernels k) { k.layer_norm_forward(a); });
  forward.dropout = tenth();
  add("layer_norm_forward" + shape(R, C) + " residual=1 p=0.1", 4 * row_bytes,
      [a = forward](Kernels k) { k.layer_norm_forward(a); });
  RowNormBackward backward{d_x, nullptr, d_gamma, d_beta, nullptr, y, x, mean, rstd, gamma, keys, R, C, {}, false};
  add("layer_norm_backward" + shape(R, C), 3 * row_bytes, [b = backward](Kernels k) { k.layer_norm_backward(b); });
  backward.d_sum = sum;
  backward.d_h = d_h;
  backward.dropout = tenth();
  add("layer_norm_backward" + shape(R, C) + " residual=1 p=0.1", 5 * row_bytes,
      [b = backward](Kernels k) { k.layer_norm_backward(b); });
  end_group();
}

void KernelProblems::add_activations(std::int64_t R, std::int64_t C) {
  begin_group();
  const double row_bytes = 4.0 * static_cast<double>(R * C);
  float *y = take(R * C), *x = take(R * C), *d_y = take(R * C), *part = take(C);
  constexpr std::pair<const char*, Activation> kKinds[] = {{"gelu", Activation::kGelu},
                                                           {"quick_gelu", Activation::kQuickGelu},
                                                           {"gelu_tanh", Activation::kGeluTanh},
                                                           {"tanh", Activation::kTanh}};
  for (const auto& [name, activation] : kKinds) {
    const Activation kind = activation;
    const std::string text = shape(R, C) + " kind=" + name;
    add("activation_forward" + text, 2 * row_bytes, [=](Kernels k) { k.activation_forward({y, x, R * C, kind}); });
    add("activation_backward" + text, 3 * row_bytes, [=](Kernels k) {
      k.activation_backward({y, part, d_y, x, R, C, kind, false});
    });
  }
  end_group();
}

void KernelProblems::add_row_passes(std::int64_t R, std::int64_t C) {
  begin_group();
  const double row_bytes = 4.0 * static_cast<double>(R * C);
  const std::uint64_t* const keys = keys_.data();
  const std::int32_t* const index = index_.data();
  float *a = take(R * C), *b = take(R * C), *c = take(R * C), *part = take(C);
  float *d = take(R * C), *e = take(R * C);
  double* const squares = static_cast<double*>(static_cast<void*>(take(kLine)));
  add("fill" + shape(R, C), row_bytes, [=](Kernels k) { k.fill({a, R * C, 0.0f}); });
  add("add" + shape(R, C), 3 * row_bytes, [=](Kernels k) { k.add({a, b, c, R * C}); });
  add("column_sums" + shape(R, C), row_bytes, [=](Kernels k) { k.column_sums({part, b, R, C, C}); });
  add("sum_of_squares" + shape(R, C), row_bytes, [=](Kernels k) { k.sum_of_squares({squares, b, R * C}); });
  add("dropout_forward" + shape(R, C), 2 * row_bytes, [=](Kernels k) {
    k.dropout_forward({a, b, keys, R, C, tenth()});
  });
  add("embedding_backward" + shape(R, C), 3 * row_bytes, [=](Kernels k) {
    k.embedding_backward({a, b, index, R, C, 0, C, -1});
  });
  add("text_embedding_forward" + shape(R, C), 3 * row_bytes, [=](Kernels k) {
    k.text_embedding_forward({a, b, c, part, index, index, nullptr, R, C});
  });
  add("blend_backward" + shape(R, C), 5 * row_bytes, [=](Kernels k) {
    k.blend_backward({d, e, part, part + 1, a, b, c, R * C, 0.7f, 0.3f, false, false});
  });
  add("normalize_forward" + shape(R, C), 2 * row_bytes, [=](Kernels k) { k.normalize_forward({a, d, b, R, C}); });
  end_group();
}

void KernelProblems::add_update(std::int64_t count) {
  begin_group();
  float *p = take(count), *m = take(count), *v = take(count, 1e-3f), *g = take(count);
  const AdamW a{p, m, v, g, count, 1.0f, 1.0f, 0.1f, 0.999f, 0.001f, 1e-5f, 1.0f, 1e-8f};
  add("adamw N=" + std::to_string(count), 28.0 * static_cast<double>(count), [a](Kernels k) { k.adamw(a); });
  end_group();
}

void KernelProblems::add_cross_entropy(std::int64_t R, std::int64_t V) {
  begin_group();
  const double row_bytes = 4.0 * static_cast<double>(R * V);
  float *logits = take(R * V), *d = take(R * V), *loss = take(R), *tops = take(R), *others = take(R);
  const std::int32_t* const labels = labels_.data();
  std::int32_t* const hits = hits_.data();
  add("cross_entropy_forward" + shape(R, V), row_bytes, [=](Kernels k) {
    k.cross_entropy_forward({loss, tops, others, hits, logits, labels, R, V, 0.0f});
  });
  add("cross_entropy_backward" + shape(R, V), 2 * row_bytes, [=](Kernels k) {
    k.cross_entropy_backward({d, logits, tops, others, labels, R, V, 0.1f, 0.0f});
  });
  end_group();
}

void KernelProblems::add_contrastive(std::int64_t B, std::int64_t E) {
  begin_group();
  float *a = take(B * E), *b = take(B * E), *w = take(B * B), *out = take(B * E), *loss = take(B), *slope = take(B);
  const double bytes = 4.0 * static_cast<double>(2 * B * E + B * B);
  const std::string text = " B=" + std::to_string(B) + " E=" + std::to_string(E);
  add("contrastive_forward" + text, bytes, [=](Kernels k) {
    k.contrastive_forward({loss, slope, w, a, b, B, B, E, 0, 14.0f});
  });
  add("weighted_row_sum" + text, bytes, [=](Kernels k) {
    k.weighted_row_sum({out, w, b, B, B, E, B, 1, E, 1.0f, false});
  });
  end_group();
}

void KernelProblems::add_patches(std::int64_t S, std::int64_t P) {
  begin_group();
  float *pixels = take(3 * S * S), *out = take(3 * S * S);
  add("extract_patches S=" + std::to_string(S) + " P=" + std::to_string(P), 24.0 * static_cast<double>(S * S),
      [=](Kernels k) {
        k.extract_patches({out, pixels, 3, S, S, P});
      });
  end_group();
}

}  // namespace bascule
