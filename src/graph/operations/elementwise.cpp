// SPDX-License-Identifier: Apache-2.0
#include "src/base/check.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace activation_operation {

namespace gradient {
enum : std::size_t { kDY, kX, kDX };

void launch(const NodeView& node, Launch& l) {
  const Extent rows = node.rows(kX);
  const std::int64_t cols = node.cols(kX);
  ActivationBackward* const a = l.kernel(l.kernels.activation_backward,
                                         {l.elements(node[kDX]), nullptr, l.elements(node[kDY]), l.elements(node[kX]),
                                          0, cols, node.as<Activation>(), false},
                                         by_rows_evenly(l, rows, cols));
  l.adds(&a->accumulate, node.operand(kDX).access);
}

constexpr OperationKind kKind{"activation_backward", cost_by_elements<kX, 30, 12>, launch, nullptr, nullptr,
                              places(kDY, kX, kDX)};
}  // namespace gradient

enum : std::size_t { kX, kY };

void launch(const NodeView& node, Launch& l) {
  l.kernel(l.kernels.activation_forward, {l.elements(node[kY]), l.elements(node[kX]), 0, node.as<Activation>()},
           by_elements_evenly(l, node.rows(kX), node.cols(kX)));
}

constexpr OperationKind kKind{"activation", cost_by_elements<kX, 25, 8>,
                              launch,       derive_in_place<gradient::kKind, kY, kX, kX>,
                              nullptr,      places(kX, kY)};

}  // namespace activation_operation
}  // namespace

Tensor activation(Graph& graph, const std::string& name, Tensor x, Activation kind) {
  const Tensor y = graph.activation_like(name, x, graph[x].cols);
  graph.may_share(y, x);
  graph.add(activation_operation::kKind, {reads(x), writes(y)}, Attributes::of(kind));
  return y;
}

namespace {
namespace add_operation {

namespace gradient {
// Adds the gradient of the sum to that of one operand.
enum : std::size_t { kDY, kDX };

void launch(const NodeView& node, Launch& l) {
  Scale* const a = l.kernel(l.kernels.scale, {l.at(node[kDX]), l.at(node[kDY]), 0, 1.0f, false},
                            by_elements_evenly(l, node.rows(kDY), node.cols(kDY)));
  l.adds(&a->accumulate, node.operand(kDX).access);
}

constexpr OperationKind kKind{"add_backward", cost_by_elements<kDY, 0, 8>, launch};
}  // namespace gradient

enum : std::size_t { kA, kB, kY };

void derive(const NodeView& node, Backward& b) {
  const Tensor d_y = b.gradient(node[kY]);
  if (!d_y) return;
  for (const std::size_t place : {kA, kB}) {
    if (b.wants(node[place])) b.emit(gradient::kKind, {reads(d_y), b.slot(node[place])});
  }
}

void launch(const NodeView& node, Launch& l) {
  l.kernel(l.kernels.add, {l.at(node[kY]), l.at(node[kA]), l.at(node[kB]), 0},
           by_elements_evenly(l, node.rows(kY), node.cols(kY)));
}

constexpr OperationKind kKind{"add", cost_by_elements<kY, 1, 12>, launch, derive};

}  // namespace add_operation
}  // namespace

Tensor add(Graph& graph, const std::string& name, Tensor a, Tensor b) {
  BASCULE_CHECK(graph[a].rows == graph[b].rows && graph[a].cols == graph[b].cols);
  const Tensor y = graph.activation_like(name, a, graph[a].cols);
  graph.may_share(y, a);
  graph.add(add_operation::kKind, {reads(a), reads(b), writes(y)});
  return y;
}

namespace {
namespace scale_operation {

// The same operation forward, and on gradients backward. The attribute is the factor (float).
enum : std::size_t { kX, kY };

void launch(const NodeView& node, Launch& l) {
  Scale* const a = l.kernel(l.kernels.scale, {l.at(node[kY]), l.at(node[kX]), 0, node.as<float>(), false},
                            by_elements_evenly(l, node.rows(kX), node.cols(kX)));
  l.adds(&a->accumulate, node.operand(kY).access);
}

constexpr OperationKind kGradient{"scale_backward", cost_by_elements<kX, 1, 8>, launch};

constexpr OperationKind kKind{"scale", cost_by_elements<kX, 1, 8>, launch, derive_in_place<kGradient, kY, kX>};

}  // namespace scale_operation
}  // namespace

Tensor scale(Graph& graph, const std::string& name, Tensor x, float factor) {
  const Tensor y = graph.activation_like(name, x, graph[x].cols);
  graph.may_share(y, x);
  graph.add(scale_operation::kKind, {reads(x), writes(y)}, Attributes::of(factor));
  return y;
}

namespace {
namespace round_operation {

enum : std::size_t { kX, kY };

void launch(const NodeView& node, Launch& l) {
  l.kernel(l.kernels.to_bf16, {l.at<std::uint16_t>(node[kY]), l.at(node[kX]), 0},
           by_elements_evenly(l, node.rows(kX), node.cols(kX)));
}

constexpr OperationKind kKind{"round_to_bf16", cost_by_elements<kX, 8, 8>, launch, nullptr, nullptr, places(kY)};

}  // namespace round_operation
}  // namespace

const OperationKind kRoundToBf16 = round_operation::kKind;

namespace {
namespace repeat_operation {

// Whole tensors; a task is a range of the rows of one copy. The attribute is the number of copies (std::int64_t).
struct Block {
  void (*kernel)(const CopyRows&);
  float *whole, *repeated;
  std::int64_t rows, cols, copies;
  bool adds;  // backward: to what d_x holds
};

Block block_of(const NodeView& node, const Launch& l, std::size_t whole, std::size_t repeated) {
  return {l.kernels.copy_rows,
          l.at(node[whole]),
          l.at(node[repeated]),
          0,
          node.cols(whole),
          node.as<std::int64_t>(),
          false};
}

namespace gradient {
enum : std::size_t { kDY, kDX };

// In the order of the copies.
void run(const Block& b, Range range, int) {
  float* const d_x = b.whole + range.first * b.cols;
  for (std::int64_t copy = 0; copy < b.copies; ++copy)
    b.kernel({d_x, b.repeated + (copy * b.rows + range.first) * b.cols, range.count, b.cols, b.cols, b.cols,
              b.adds || copy > 0});
}

void launch(const NodeView& node, Launch& l) {
  Block* const b = l.step(block_of(node, l, kDX, kDY), by_rows(node.rows(kDX), node.cols(kDX)), run);
  l.rows(&b->rows, node.rows(kDX));
  l.adds(&b->adds, node.operand(kDX).access);
}

constexpr OperationKind kKind{"repeat_rows_backward", cost_by_elements<kDY, 1, 8>, launch};
}  // namespace gradient

enum : std::size_t { kX, kY };

void run(const Block& b, Range range, int) {
  for (std::int64_t copy = 0; copy < b.copies; ++copy)
    b.kernel({b.repeated + (copy * b.rows + range.first) * b.cols, b.whole + range.first * b.cols, range.count, b.cols,
              b.cols, b.cols, false});
}

void launch(const NodeView& node, Launch& l) {
  Block* const b = l.step(block_of(node, l, kX, kY), by_rows(node.rows(kX), node.cols(kX)), run);
  l.rows(&b->rows, node.rows(kX));
}

constexpr OperationKind kKind{"repeat_rows", cost_by_elements<kY, 0, 8>, launch, derive_one<gradient::kKind, kY, kX>};

}  // namespace repeat_operation
}  // namespace

Tensor repeat_rows(Graph& graph, const std::string& name, Tensor x, Extent rows) {
  if (graph[x].rows == rows) return x;
  const std::int64_t once = graph.max_rows(x), all = rows.at(graph.bounds());
  BASCULE_CHECK(all % once == 0);
  const Tensor y = graph.activation(name, rows, graph[x].cols);
  graph.add(repeat_operation::kKind, {reads(x), writes(y)}, Attributes::of(all / once));
  return y;
}

namespace {
namespace normalize_operation {

namespace gradient {
enum : std::size_t { kDY, kY, kNorm, kDX };

void launch(const NodeView& node, Launch& l) {
  const Extent rows = node.rows(kY);
  const std::int64_t cols = node.cols(kY);
  NormalizeBackward* const a =
      l.kernel(l.kernels.normalize_backward,
               {l.at(node[kDX]), l.at(node[kDY]), l.at(node[kY]), l.at(node[kNorm]), 0, cols, false},
               by_rows_evenly(l, rows, cols));
  l.adds(&a->accumulate, node.operand(kDX).access);
}

constexpr OperationKind kKind{"normalize_backward", cost_by_elements<kY, 5, 12>, launch};
}  // namespace gradient

enum : std::size_t { kX, kY, kNorm };

void launch(const NodeView& node, Launch& l) {
  const std::int64_t cols = node.cols(kX);
  l.kernel(l.kernels.normalize_forward, {l.at(node[kY]), l.at(node[kNorm]), l.at(node[kX]), 0, cols},
           by_rows_evenly(l, node.rows(kX), cols));
}

constexpr OperationKind kKind{"normalize", cost_by_elements<kX, 3, 8>, launch,
                              derive_one<gradient::kKind, kY, kX, kY, kNorm>};

}  // namespace normalize_operation
}  // namespace

Tensor normalize(Graph& graph, const std::string& name, Tensor x) {
  const Tensor norm = graph.activation(name + ".norm", graph[x].rows, 1);
  const Tensor y = graph.activation_like(name, x, graph[x].cols);
  graph.add(normalize_operation::kKind, {reads(x), writes(y), writes(norm)});
  return y;
}

namespace {
namespace gate_operation {

// Attributes of the operation and of its gradient.
struct Gate {
  Activation activation;
  GatedHalf half;
  DropoutPlace dropout;
};

namespace gradient {
enum : std::size_t { kDY, kX, kKeys, kDX };

void launch(const NodeView& node, Launch& l) {
  const Gate attributes = node.as<Gate>();
  GateBackward a{};
  a.d_x = l.elements(node[kDX]);
  a.d_y = l.elements(node[kDY]);
  a.x = l.elements(node[kX]);
  a.cols = node.cols(kDY);
  a.kind = attributes.activation;
  a.half = attributes.half;
  GateBackward* const stored = l.kernel(l.kernels.gate_backward, a, by_rows_evenly(l, node.rows(kX), node.cols(kX)));
  l.operand(&stored->row_keys, node[kKeys]);
  l.dropout(&stored->dropout, attributes.dropout);
}

constexpr OperationKind kKind{"gate_backward", cost_by_elements<kDY, 60, 20>, launch, nullptr,
                              nullptr,         places(kDY, kX, kDX)};
}  // namespace gradient

enum : std::size_t { kX, kKeys, kY };

void derive(const NodeView& node, Backward& b) {
  const Tensor d_y = b.gradient(node[kY]);
  if (!d_y) return;
  const Operand d_x = b.slot(node[kX]);
  if (!d_x) return;
  BASCULE_CHECK(d_x.access == Access::kWrite);  // what is gated is read by nobody else
  b.graph().may_share(d_x.tensor, node[kX]);
  b.emit(gradient::kKind, {reads(d_y), reads(node[kX]), reads(node[kKeys]), d_x}, node.attributes());
}

void launch(const NodeView& node, Launch& l) {
  const Gate attributes = node.as<Gate>();
  GateForward a{};
  a.y = l.elements(node[kY]);
  a.x = l.elements(node[kX]);
  a.cols = node.cols(kY);
  a.kind = attributes.activation;
  a.half = attributes.half;
  GateForward* const stored = l.kernel(l.kernels.gate_forward, a, by_rows_evenly(l, node.rows(kX), node.cols(kX)));
  l.operand(&stored->row_keys, node[kKeys]);
  l.dropout(&stored->dropout, attributes.dropout);
}

constexpr OperationKind kKind{"gate", cost_by_elements<kY, 45, 12>, launch, derive, nullptr, places(kX, kY)};

}  // namespace gate_operation
}  // namespace

Tensor gate(Graph& graph, const std::string& name, Tensor x, Activation kind, DropoutPlace dropout, Tensor row_keys,
            GatedHalf half) {
  const Tensor y = graph.activation_like(name, x, graph[x].cols / 2);
  const Tensor keys = dropout.probability > 0.0f ? row_keys : Tensor{};
  graph.add(gate_operation::kKind, {reads(x), reads(keys), writes(y)},
            Attributes::of(gate_operation::Gate{kind, half, dropout}));
  return y;
}

}  // namespace bascule
