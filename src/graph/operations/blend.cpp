// SPDX-License-Identifier: Apache-2.0
// Link towers with a trained factor.
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace blend_operation {

struct Weights {
  float a, c;
};

Weights weights_of(Blend kind, float factor) {
  return kind == Blend::kScaled ? Weights{factor, 1.0f} : Weights{1.0f - factor, factor};
}

// The attribute of both is the Blend.
namespace gradient {
enum : std::size_t { kDOut, kA, kC, kFactor, kDA, kDC, kDFactor, kParts };

struct Block {
  void (*kernel)(const BlendBackward&);
  float *d_a, *d_c, *parts;  // parts: (tasks, 2)
  const float *d_out, *a, *c, *factor;
  Blend kind;
  bool adds_a, adds_c;
};

void run(const Block& b, Range range, int) {
  const Weights weights = weights_of(b.kind, *b.factor);
  float* const part = b.parts + 2 * range.task;
  b.kernel({advance(b.d_a, range.first), advance(b.d_c, range.first), part, part + 1, b.d_out + range.first,
            b.a + range.first, b.c + range.first, range.count, weights.a, weights.c, b.adds_a, b.adds_c});
}

// kScaled: d factor = sum d_out a; kInterpolate: sum d_out c - sum d_out a. Summed in float64 in the order of the
// parts.
struct FactorBlock {
  float* d_factor;
  const float* parts;
  Blend kind;
  std::int64_t count;
  bool adds;
};

void run_factor(const FactorBlock& b, Range, int) {
  double sum = 0.0;
  for (std::int64_t p = 0; p < b.count; ++p) {
    const double a = static_cast<double>(b.parts[2 * p]), c = static_cast<double>(b.parts[2 * p + 1]);
    sum += b.kind == Blend::kScaled ? a : c - a;
  }
  *b.d_factor = (b.adds ? *b.d_factor : 0.0f) + static_cast<float>(sum);
}

void launch(const NodeView& node, Launch& l) {
  const Extent rows = node.rows(kA);
  const std::int64_t cols = node.cols(kA);
  const Blend kind = node.as<Blend>();
  Block* const b =
      l.step(Block{l.kernels.blend_backward, l.at(node[kDA]), l.at(node[kDC]), l.at(node[kParts]), l.at(node[kDOut]),
                   l.at(node[kA]), l.at(node[kC]), l.at(node[kFactor]), kind, false, false},
             by_elements(rows, cols), run);
  l.adds(&b->adds_a, node.operand(kDA).access);
  l.adds(&b->adds_c, node.operand(kDC).access);
  const Operand d_factor = node.operand(kDFactor);
  if (!d_factor) return;
  FactorBlock* const f =
      l.step(FactorBlock{l.at(d_factor.tensor), l.at(node[kParts]), kind, 0, false}, whole(), run_factor);
  l.tasks(&f->count, by_elements(rows, cols));
  l.adds(&f->adds, d_factor.access);
}

constexpr OperationKind kKind{"blend_backward", cost_by_elements<kA, 6, 20>, launch};
}  // namespace gradient

enum : std::size_t { kA, kC, kFactor, kOut };

struct Block {
  void (*kernel)(const BlendForward&);
  float* out;
  const float *a, *c, *factor;
  Blend kind;
};

void run(const Block& b, Range range, int) {
  const Weights weights = weights_of(b.kind, *b.factor);
  b.kernel({b.out + range.first, b.a + range.first, b.c + range.first, range.count, weights.a, weights.c});
}

void derive(const NodeView& node, Backward& b) {
  const Tensor d_out = b.gradient(node[kOut]);
  if (!d_out || !b.wants(node[kOut])) return;
  const Operand d_a = b.slot(node[kA]), d_c = b.slot(node[kC]), d_factor = b.slot(node[kFactor]);
  const std::int64_t cols = node.cols(kA), tasks = row_tasks(b.graph().max_rows(node[kOut]), cols);
  const Tensor parts = b.graph().activation("blend_parts", fixed_rows(tasks), 2);
  b.emit(gradient::kKind,
         {reads(d_out), reads(node[kA]), reads(node[kC]), reads(node[kFactor]), d_a, d_c, d_factor, writes(parts)},
         node.attributes());
}

void launch(const NodeView& node, Launch& l) {
  l.step(Block{l.kernels.blend_forward, l.at(node[kOut]), l.at(node[kA]), l.at(node[kC]), l.at(node[kFactor]),
               node.as<Blend>()},
         by_elements(node.rows(kA), node.cols(kA)), run);
}

constexpr OperationKind kKind{"blend", cost_by_elements<kA, 3, 12>, launch, derive};

}  // namespace blend_operation
}  // namespace

Tensor blend(Graph& graph, const std::string& name, Blend kind, Tensor a, Tensor c, Tensor factor) {
  const Tensor out = graph.activation_like(name, a, graph[a].cols);
  graph.add(blend_operation::kKind, {reads(a), reads(c), reads(factor), writes(out)}, Attributes::of(kind));
  return out;
}

}  // namespace bascule
