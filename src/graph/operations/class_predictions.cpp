// SPDX-License-Identifier: Apache-2.0
// What a head over classes predicts, from its logits and what their loss has computed of them already.
#include <algorithm>
#include <cmath>

#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {

struct Arguments {
  std::int32_t* classes;
  float* probabilities;
  const float *logits, *tops, *others;
  Extent rows;
  std::int64_t cols;
  static std::int64_t tasks(const Arguments& a, const Replay& replay) {
    return row_tasks(a.rows.at(replay.batch.counts), a.cols);
  }
  static void run(const Arguments& a, const Replay& replay, std::int64_t task, int) {
    const RowRange range = rows_of_task(task, a.rows.at(replay.batch.counts), a.cols);
    for (std::int64_t r = range.first; r < range.first + range.count; ++r) {
      const std::int32_t label = replay.batch.labels[r];
      a.classes[r] = 0;
      a.probabilities[r] = 0.0f;
      if (label < 0) continue;
      const float* const logits = a.logits + r * a.cols;
      const std::int64_t first = std::find(logits, logits + a.cols, a.tops[r]) - logits;
      a.classes[r] = first < a.cols ? static_cast<std::int32_t>(first) : 0;  // none is equal to a NaN
      const double own = std::exp(static_cast<double>(logits[label]) - static_cast<double>(a.tops[r]));
      a.probabilities[r] = static_cast<float>(own / (static_cast<double>(a.others[r]) + own));
    }
  }
};

class Predictions final : public Operation {
 public:
  Tensor logits, tops, others, classes, probabilities;
  Extent rows;
  std::int64_t cols = 0;

  const char* kind() const override { return "class_predictions"; }
  std::vector<TensorUse> uses() const override {
    return {{logits, Access::kRead},
            {tops, Access::kRead},
            {others, Access::kRead},
            {classes, Access::kWrite},
            {probabilities, Access::kWrite}};
  }
  Cost cost(const BatchCounts& counts) const override {
    const double values = static_cast<double>(rows.at(counts) * cols);
    return {values, 4.0 * values};
  }
  void launch(Launch& launch) const override {
    launch.step(Arguments{launch.at<std::int32_t>(classes), launch.at(probabilities), launch.at(logits),
                          launch.at(tops), launch.at(others), rows, cols});
  }
};

}  // namespace

ClassPredictions class_predictions(Graph& graph, Tensor logits, const ClassLoss& loss) {
  auto op = std::make_unique<Predictions>();
  op->logits = logits;
  op->tops = loss.tops;
  op->others = loss.others;
  op->rows = graph[logits].rows;
  op->cols = graph[logits].cols;
  op->classes = graph.activation("predicted_classes", op->rows, 1, DType::kInt32);
  op->probabilities = graph.activation("label_probabilities", op->rows, 1);
  graph.keep(op->classes);
  graph.keep(op->probabilities);
  const ClassPredictions result{op->classes, op->probabilities};
  graph.add(std::move(op));
  return result;
}

}  // namespace bascule
