// SPDX-License-Identifier: Apache-2.0
// The predictions of a head over classes, from its logits and what their loss has computed of them already.
#include <algorithm>

#include "src/base/elementary.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {

struct Block {
  std::int32_t* classes;
  float* probabilities;
  const float *logits, *tops, *others;
  const std::int32_t* labels;
  std::int64_t cols;
};

void run(const Block& b, Range range, int) {
  for (std::int64_t r = range.first; r < range.end(); ++r) {
    const std::int32_t label = b.labels[r];
    b.classes[r] = 0;
    b.probabilities[r] = 0.0f;
    if (label < 0) continue;
    const float* const logits = b.logits + r * b.cols;
    const std::int64_t first = std::find(logits, logits + b.cols, b.tops[r]) - logits;
    b.classes[r] = first < b.cols ? static_cast<std::int32_t>(first) : 0;  // none is equal to a NaN
    const double own = fixed_exp(static_cast<double>(logits[label]) - static_cast<double>(b.tops[r]));
    b.probabilities[r] = static_cast<float>(own / (static_cast<double>(b.others[r]) + own));
  }
}

enum : std::size_t { kLogits, kTops, kOthers, kLabels, kClasses, kProbabilities };

void launch(const NodeView& node, Launch& l) {
  Block* const b = l.step(Block{l.at<std::int32_t>(node[kClasses]), l.at(node[kProbabilities]), l.at(node[kLogits]),
                                l.at(node[kTops]), l.at(node[kOthers]), nullptr, node.cols(kLogits)},
                          by_rows(node.rows(kLogits), node.cols(kLogits)), run);
  l.operand(&b->labels, node[kLabels]);
}

constexpr OperationKind kKind{"class_predictions", cost_by_elements<kLogits, 1, 4>, launch};

}  // namespace

ClassPredictions class_predictions(Graph& graph, Tensor logits, Tensor labels, const ClassLoss& loss) {
  const Extent rows = graph[logits].rows;
  const ClassPredictions made{graph.activation("predicted_classes", rows, 1, DType::kInt32),
                              graph.activation("label_probabilities", rows, 1)};
  graph.keep(made.classes);
  graph.keep(made.probabilities);
  graph.add(kKind, {reads(logits), reads(loss.tops), reads(loss.others), reads(labels), writes(made.classes),
                    writes(made.probabilities)});
  return made;
}

}  // namespace bascule
