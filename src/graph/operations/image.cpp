// SPDX-License-Identifier: Apache-2.0
// Pictures to image rows.
#include "src/base/align.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"
#include "src/graph/operations/accumulate.h"

namespace bascule {
namespace {

struct PatchArguments {
  const KernelTable* kernels;
  float* out;
  std::int64_t channels, height, width, patch;
  static std::int64_t tasks(const PatchArguments&, const Replay& replay) { return replay.batch.counts.samples; }
  static void run(const PatchArguments& a, const Replay& replay, std::int64_t sample, int) {
    const std::int64_t rows = (a.height / a.patch) * (a.width / a.patch), cols = a.channels * a.patch * a.patch;
    const float* pixels = replay.batch.pixels + sample * a.channels * a.height * a.width;
    a.kernels->extract_patches({a.out + sample * rows * cols, pixels, a.channels, a.height, a.width, a.patch});
  }
};

class Patches final : public Operation {
 public:
  Tensor out;
  std::int64_t channels = 0, height = 0, width = 0, patch = 0;

  const char* kind() const override { return "extract_patches"; }
  std::vector<TensorUse> uses() const override { return {{out, Access::kWrite}}; }
  Cost cost(const BatchCounts& counts) const override {
    return {0.0, 8.0 * static_cast<double>(counts.samples * channels * height * width)};
  }
  void launch(Launch& launch) const override {
    launch.step(PatchArguments{&launch.kernels, launch.at(out), channels, height, width, patch});
  }
};

struct ForwardArguments {
  const KernelTable* kernels;
  float* out;
  const float *patch, *class_row, *position;
  std::int64_t patches, cols;
  static std::int64_t tasks(const ForwardArguments&, const Replay& replay) { return replay.batch.counts.samples; }
  static void run(const ForwardArguments& a, const Replay&, std::int64_t sample, int) {
    a.kernels->image_embedding_forward({a.out + sample * (a.patches + 1) * a.cols,
                                        a.patch + sample * a.patches * a.cols, a.class_row, a.position, a.patches,
                                        a.cols});
  }
};

struct BackwardArguments {
  static constexpr std::int64_t kRows = 16;  // of the position table, a task
  const KernelTable* kernels;
  float *d_patch, *d_class, *d_position;
  const float* d_out;
  std::int64_t patches, cols;
  Accumulate class_rule, position_rule;
  static std::int64_t tasks(const BackwardArguments& a, const Replay&) { return divide_up(a.patches + 1, kRows); }
  static void run(const BackwardArguments& a, const Replay& replay, std::int64_t task, int) {
    const std::int64_t first = task * kRows;
    const std::int64_t last = first + kRows < a.patches + 1 ? first + kRows : a.patches + 1;
    a.kernels->image_embedding_backward({a.d_patch, a.d_class, a.d_position, a.d_out, replay.batch.counts.samples,
                                         a.patches, a.cols, first, last, adds(a.class_rule, replay),
                                         adds(a.position_rule, replay)});
  }
};

class ImageEmbeddingGradient final : public Operation {
 public:
  Tensor d_out;
  Backward::Slot d_patch, d_class, d_position;
  std::int64_t patches = 0, cols = 0;

  const char* kind() const override { return "image_embedding_backward"; }
  std::vector<TensorUse> uses() const override {
    std::vector<TensorUse> uses = {{d_out, Access::kRead}};
    add_slots(&uses, {d_patch, d_class, d_position});
    return uses;
  }
  Cost cost(const BatchCounts& counts) const override {
    const double values = static_cast<double>(counts.samples * (patches + 1) * cols);
    return {values, 8.0 * values};
  }
  void launch(Launch& launch) const override {
    launch.step(BackwardArguments{&launch.kernels, launch.at(d_patch.gradient), launch.at(d_class.gradient),
                                  launch.at(d_position.gradient), launch.at(d_out), patches, cols, d_class.accumulate,
                                  d_position.accumulate});
  }
};

class ImageEmbedding final : public Operation {
 public:
  Tensor out, patch, class_row, position;
  std::int64_t patches = 0, cols = 0;

  const char* kind() const override { return "image_embedding"; }
  std::vector<TensorUse> uses() const override {
    return {{patch, Access::kRead}, {class_row, Access::kRead}, {position, Access::kRead}, {out, Access::kWrite}};
  }
  Cost cost(const BatchCounts& counts) const override {
    const double values = static_cast<double>(counts.samples * (patches + 1) * cols);
    return {values, 12.0 * values};
  }
  void derive(Backward& b) const override {
    const Tensor d_out = b.gradient(out);
    if (!d_out || !b.wants(out)) return;
    auto op = std::make_unique<ImageEmbeddingGradient>();
    op->d_out = d_out;
    op->d_patch = b.slot(patch);
    op->d_class = b.slot(class_row);
    op->d_position = b.slot(position);
    op->patches = patches;
    op->cols = cols;
    b.emit(std::move(op));
  }
  void launch(Launch& launch) const override {
    launch.step(ForwardArguments{&launch.kernels, launch.at(out), launch.at(patch), launch.at(class_row),
                                 launch.at(position), patches, cols});
  }
};

}  // namespace

Tensor extract_patches(Graph& graph, const std::string& name, std::int64_t channels, std::int64_t height,
                       std::int64_t width, std::int64_t patch) {
  auto op = std::make_unique<Patches>();
  op->channels = channels;
  op->height = height;
  op->width = width;
  op->patch = patch;
  op->out = graph.activation(name, rows_per_sample((height / patch) * (width / patch)), channels * patch * patch);
  const Tensor out = op->out;
  graph.add(std::move(op));
  return out;
}

Tensor image_embedding(Graph& graph, const std::string& name, Tensor patch, Tensor class_row, Tensor position,
                       std::int64_t patches) {
  auto op = std::make_unique<ImageEmbedding>();
  op->patch = patch;
  op->class_row = class_row;
  op->position = position;
  op->patches = patches;
  op->cols = graph[patch].cols;
  op->out = graph.activation(name, rows_per_sample(patches + 1), op->cols);
  const Tensor out = op->out;
  graph.add(std::move(op));
  return out;
}

}  // namespace bascule
