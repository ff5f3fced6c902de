// SPDX-License-Identifier: Apache-2.0
// Compares a small graph's loss and every gradient with exact derivatives of a reference in float64.
//
//   check_gradients(bounds, {batch, other},
//                   [](GraphRun& run) { return std::vector<Tensor>{normalize(run.graph(), "y", run.source("x",
//                   text_rows(), 5))}; },
//                   [](const auto& values, const TestBatch& batch) {
//                     return values.loss({normalized_of(values.source("x", batch.text_rows()))});
//                   });
//
// The batches are micro-batches: the first alone, then the first again with the others added. What the workspace held
// before changes nothing.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/graph/graph_run.h"
#include "tests/graph/reference_layers.h"
#include "tests/support/error_bound.h"

namespace bascule::test {

// The graph's parameters and inputs, widened. One parameter's elements may carry derivatives.
template <typename Number>
class Values {
 public:
  explicit Values(GraphRun& run) : graph_(run.graph()) {
    for (const TensorInfo& info : graph_.tensors()) {
      if (info.storage == Storage::kParameter || info.storage == Storage::kInput) {
        const std::vector<float> values = run.values(info.name);
        Matrix<Number> matrix(static_cast<std::int64_t>(values.size()) / info.cols, info.cols);
        for (std::size_t i = 0; i < values.size(); ++i) matrix.values[i] = Number(static_cast<double>(values[i]));
        matrices_[info.name] = std::move(matrix);
      }
    }
  }

  Matrix<Number>& matrix(const std::string& name) { return matrices_.at(name); }
  const Matrix<Number>& matrix(const std::string& name) const { return matrices_.at(name); }
  // The first `rows` rows of an input.
  Matrix<Number> input(const std::string& name, std::int64_t rows) const {
    return block_of(matrix(name), 0, rows, 0, matrix(name).cols);
  }
  // Makes the same as GraphRun::source.
  Matrix<Number> source(const std::string& name, std::int64_t rows) const {
    return linear_of(input(name + ".input", rows), matrix(name + ".weight"));
  }
  // The loss that GraphRun::finish makes of outputs.
  Number loss(const std::vector<Matrix<Number>>& outputs) const {
    Number sum = 0.0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Matrix<Number>& cotangent = matrix("cotangent" + std::to_string(i));
      for (std::size_t e = 0; e < outputs[i].values.size(); ++e) sum += outputs[i].values[e] * cotangent.values[e];
    }
    return sum;
  }

 private:
  const Graph& graph_;
  std::map<std::string, Matrix<Number>> matrices_;
};

// A relative error of 64 roundings: sums here have at most some 40 terms and a chain of operations adds a few roundings
// each. An error in a formula shows as 1e-2 and more.
constexpr double kGradientTolerance = 64.0 * kFloatEpsilon;

// Each trained parameter's exact gradient, summed over the batches.
template <typename Reference>
std::map<std::string, std::vector<double>> exact_gradients(GraphRun& run, const std::vector<TestBatch>& batches,
                                                           Reference reference) {
  std::map<std::string, std::vector<double>> gradients;
  Values<Dual> values(run);
  for (const TensorInfo& info : run.graph().tensors()) {
    if (info.storage != Storage::kParameter || !run.parameters()[info.parameter].trained) continue;
    std::vector<double>& gradient = gradients[info.name];
    for (Dual& element : values.matrix(info.name).values) {
      element.derivative = 1.0;
      double sum = 0.0;
      for (const TestBatch& batch : batches) sum += reference(values, batch).derivative;
      gradient.push_back(sum);
      element.derivative = 0.0;
    }
  }
  return gradients;
}

template <typename Reference>
void expect_gradients(GraphRun& run, const std::vector<TestBatch>& batches, Reference reference,
                      const std::string& when) {
  for (const auto& [name, truth] : exact_gradients(run, batches, reference)) {
    EXPECT_LE(relative_l2(run.gradient(name), truth), kGradientTolerance) << name << ", " << when;
  }
}

template <typename Build, typename Reference>
void check_gradients(const BatchCounts& bounds, const std::vector<TestBatch>& batches, Build build,
                     Reference reference) {
  GraphRun run(bounds);
  run.finish(build(run));
  run.replay(batches.front().batch());
  const std::vector<float> alone = run.all_gradients();
  const double loss = reference(Values<Dual>(run), batches.front()).value;
  if (run.loss()) {
    EXPECT_NEAR(static_cast<double>(*run.at(run.loss())), loss, kGradientTolerance * (1.0 + std::fabs(loss)));
  }
  expect_gradients(run, {batches.front()}, reference, "the first batch");
  for (std::size_t i = 1; i < batches.size(); ++i) run.replay(batches[i].batch(), 1.0f, true);
  expect_gradients(run, batches, reference, "all batches");
  run.replay(batches.front().batch());
  EXPECT_EQ(first_different_bit(run.all_gradients(), alone), -1) << "the first batch again";
}

}  // namespace bascule::test
