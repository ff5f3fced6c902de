// SPDX-License-Identifier: Apache-2.0
// The predictions of a head over classes, from its logits and what their loss has computed of them already.
#include <algorithm>

#include "src/base/elementary.h"
#include "src/base/largest.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace class_predictions_operation {

struct Block {
  std::int32_t* classes;
  float *class_probabilities, *probabilities;
  const float *logits, *tops, *others;
  const std::int32_t* labels;
  std::int64_t cols, best;
};

void run(const Block& b, Range range, int) {
  for (std::int64_t r = range.first; r < range.end(); ++r) {
    const std::int32_t label = b.labels[r];
    std::int32_t* const classes = b.classes + r * b.best;
    float* const probabilities = b.class_probabilities + r * b.best;
    std::fill_n(classes, b.best, 0);
    std::fill_n(probabilities, b.best, 0.0f);
    b.probabilities[r] = 0.0f;
    if (label < 0) continue;
    const float* const logits = b.logits + r * b.cols;
    const auto weight = [&](std::int32_t c) {
      return fixed_exp(static_cast<double>(logits[c]) - static_cast<double>(b.tops[r]));
    };
    const double sum = static_cast<double>(b.others[r]) + weight(label);
    b.probabilities[r] = static_cast<float>(weight(label) / sum);
    places_of_largest(logits, b.cols, classes, b.best);
    for (std::int64_t i = 0; i < b.best; ++i) probabilities[i] = static_cast<float>(weight(classes[i]) / sum);
  }
}

enum : std::size_t { kLogits, kTops, kOthers, kLabels, kClasses, kClassProbabilities, kProbabilities };

void launch(const NodeView& node, Launch& l) {
  Block* const b = l.step(Block{l.at<std::int32_t>(node[kClasses]), l.at(node[kClassProbabilities]),
                                l.at(node[kProbabilities]), l.at(node[kLogits]), l.at(node[kTops]), l.at(node[kOthers]),
                                nullptr, node.cols(kLogits), node.cols(kClasses)},
                          by_rows(node.rows(kLogits), node.cols(kLogits)), run);
  l.operand(&b->labels, node[kLabels]);
}

constexpr OperationKind kKind{"class_predictions", cost_by_elements<kLogits, 1, 4>, launch};

}  // namespace class_predictions_operation
}  // namespace

ClassPredictions class_predictions(Graph& graph, Tensor logits, Tensor labels, const ClassLoss& loss) {
  const Extent rows = graph[logits].rows;
  const std::int64_t best = std::min(kPredictedClasses, graph[logits].cols);
  const ClassPredictions made{graph.activation("predicted_classes", rows, best, DType::kInt32),
                              graph.activation("predicted_probabilities", rows, best),
                              graph.activation("label_probabilities", rows, 1)};
  graph.keep(made.classes);
  graph.keep(made.class_probabilities);
  graph.keep(made.probabilities);
  graph.add(class_predictions_operation::kKind,
            {reads(logits), reads(loss.tops), reads(loss.others), reads(labels), writes(made.classes),
             writes(made.class_probabilities), writes(made.probabilities)});
  return made;
}

}  // namespace bascule
