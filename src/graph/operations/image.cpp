// SPDX-License-Identifier: Apache-2.0
// Pictures to image rows.

#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace image_operations {

namespace patches {
enum : std::size_t { kPixels, kOut };

void cut(ExtractPatches* a, Range range) {
  const std::int64_t rows = (a->height / a->patch) * (a->width / a->patch), cols = a->channels * a->patch * a->patch;
  a->out += range.first * rows * cols;
  a->pixels += range.first * a->channels * a->height * a->width;
}

void launch(const NodeView& node, Launch& l) {
  ExtractPatches* const a =
      l.kernel(l.kernels.extract_patches, node.as<ExtractPatches>(), {rows_per_sample(1), 1}, cut);
  a->out = l.elements(node[kOut]);
  l.operand(&a->pixels, node[kPixels]);
}

constexpr OperationKind kKind{"extract_patches", cost_by_elements<kPixels, 0, 8>, launch, nullptr, nullptr,
                              places(kOut)};
}  // namespace patches

namespace gradient {
enum : std::size_t { kDOut, kDPatch, kDClass, kDPosition };
constexpr std::int64_t kRowsPerTask = 16;  // of the position table

void cut(ImageEmbeddingBackward* a, Range range) {
  a->first_row = range.first;
  a->last_row = range.end();
}

void launch(const NodeView& node, Launch& l) {
  const std::int64_t rows = node.rows(kDOut).per_row;
  ImageEmbeddingBackward* const a =
      l.kernel(l.kernels.image_embedding_backward, {}, {fixed_rows(rows), kRowsPerTask}, cut);
  a->d_patch = l.at(node[kDPatch]);
  a->d_class = l.at(node[kDClass]);
  a->d_position = l.at(node[kDPosition]);
  a->d_out = l.at(node[kDOut]);
  a->class_rows = node.as<std::int64_t>();
  a->patches = rows - a->class_rows;
  a->cols = node.cols(kDOut);
  l.rows(&a->samples, rows_per_sample(1));
  l.adds(&a->accumulate_class, node.operand(kDClass).access);
  l.adds(&a->accumulate_position, node.operand(kDPosition).access);
}

constexpr OperationKind kKind{"image_embedding_backward", cost_by_elements<kDOut, 1, 8>, launch};
}  // namespace gradient

enum : std::size_t { kPatch, kClassRow, kPosition, kOut };

std::int64_t class_rows_of(const NodeView& node) { return node[kClassRow] ? node.rows(kClassRow).fixed : 0; }

void cut(ImageEmbeddingForward* a, Range range) {
  a->out += range.first * (a->patches + a->class_rows) * a->cols;
  a->patch += range.first * a->patches * a->cols;
}

void derive(const NodeView& node, Backward& b) {
  const Tensor d_out = b.gradient(node[kOut]);
  if (!d_out || !b.wants(node[kOut])) return;
  const Operand d_patch = b.slot(node[kPatch]), d_class = b.slot(node[kClassRow]), d_position = b.slot(node[kPosition]);
  b.emit(gradient::kKind, {reads(d_out), d_patch, d_class, d_position}, Attributes::of(class_rows_of(node)));
}

void launch(const NodeView& node, Launch& l) {
  l.kernel(l.kernels.image_embedding_forward,
           {l.at(node[kOut]), l.at(node[kPatch]), l.at(node[kClassRow]), l.at(node[kPosition]),
            node.rows(kPatch).per_row, node.cols(kPatch), class_rows_of(node)},
           {rows_per_sample(1), 1}, cut);
}

constexpr OperationKind kKind{"image_embedding", cost_by_elements<kOut, 1, 12>, launch, derive};

}  // namespace image_operations
}  // namespace

Tensor extract_patches(Graph& graph, const std::string& name, Tensor pixels, std::int64_t channels, std::int64_t height,
                       std::int64_t width, std::int64_t patch) {
  const Tensor out = graph.activation(name, rows_per_sample((height / patch) * (width / patch)),
                                      channels * patch * patch, graph[pixels].dtype);
  graph.add(image_operations::patches::kKind, {reads(pixels), writes(out)},
            Attributes::of(ExtractPatches{nullptr, nullptr, channels, height, width, patch}));
  return out;
}

Tensor image_embedding(Graph& graph, const std::string& name, Tensor patch, Tensor class_row, Tensor position,
                       std::int64_t patches) {
  const Extent rows = rows_per_sample(patches + (class_row ? graph[class_row].rows.fixed : 0));
  const Tensor out = graph.activation(name, rows, graph[patch].cols, graph[patch].dtype);
  graph.add(image_operations::kKind, {reads(patch), reads(class_row), reads(position), writes(out)});
  return out;
}

}  // namespace bascule
