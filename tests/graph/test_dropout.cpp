// SPDX-License-Identifier: Apache-2.0
// Backward drops what forward dropped: the mask is read from what forward left.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "src/graph/operations.h"
#include "tests/graph/gradient_check.h"
#include "tests/graph/some_batches.h"

namespace bascule::test::test_dropout {
namespace {

TEST(Dropout, BackwardDropsTheSameElements) {
  const std::vector<TestBatch> batches = some_batches({9, 4, 17, 2, 8});
  GraphRun run(kBounds);
  const Tensor x = run.input("x", text_rows(), 50);
  const Tensor y = dropout(run.graph(), "y", linear(run.graph(), "h", x, run.parameter("w", 50, 50), Tensor{}),
                           {0.25f, 3}, run.field("text_row_keys"));
  run.graph().keep(y);
  run.finish({y});
  run.set_values("x", std::vector<float>(40 * 50, 1.0f));
  run.set_values("w", std::vector<float>(50 * 50, 0.02f));  // h = 1 everywhere: y is the mask, scaled
  run.replay(batches[0].batch(), 1.0f, false, 5);
  const std::vector<float> mask = run.rows_of(y, 40), cotangent = run.values("cotangent0");
  std::int64_t dropped = 0;
  std::vector<double> truth(50 * 50, 0.0);
  for (std::size_t r = 0; r < 40; ++r) {
    for (std::size_t c = 0; c < 50; ++c) {
      const bool kept = mask[r * 50 + c] != 0.0f;
      dropped += kept ? 0 : 1;
      if (!kept) continue;
      EXPECT_NEAR(static_cast<double>(mask[r * 50 + c]), 1.0 / 0.75, 1e-5);
      for (std::size_t i = 0; i < 50; ++i) truth[c * 50 + i] += static_cast<double>(cotangent[r * 50 + c]) / 0.75;
    }
  }
  EXPECT_NEAR(static_cast<double>(dropped) / 2000.0, 0.25, 5.0 * std::sqrt(0.25 * 0.75 / 2000.0));
  EXPECT_LE(relative_l2(run.gradient("w"), truth), kGradientTolerance);
  run.replay(batches[0].batch(), 1.0f, false, 6);
  EXPECT_NE(first_different_bit(run.rows_of(y, 40), mask), -1) << "another step drops others";
}

TEST(Dropout, EveryPlaceOfTheModelDropsByItself) {
  const TestBatch batch = some_batches({9, 4, 17, 2, 8})[0];
  GraphRun run(kBounds);
  const Tensor h = linear(run.graph(), "h", run.input("x", text_rows(), 50), run.parameter("w", 50, 50), Tensor{});
  const Tensor keys = run.field("text_row_keys");
  const Tensor places[] = {dropout(run.graph(), "a", h, {0.5f, 3}, keys),
                           dropout(run.graph(), "b", h, {0.5f, 4}, keys)};
  for (const Tensor place : places) run.graph().keep(place);
  run.seal(kernels_for(best_isa()));
  run.set_values("x", std::vector<float>(40 * 50, 1.0f));
  run.set_values("w", std::vector<float>(50 * 50, 0.02f));
  run.replay(batch.batch());
  EXPECT_NE(first_different_bit(run.rows_of(places[0], 40), run.rows_of(places[1], 40)), -1);
}

// With a linear gate and a second half of ones, y is what dropout left of the first half.
TEST(Dropout, BehindAGateBackwardDropsTheSameElements) {
  const TestBatch batch = some_batches({9, 4, 17, 2, 8})[0];
  GraphRun run(kBounds);
  const SampleRows rows = run.text();
  const Tensor x = run.source("x", rows.extent, 48);
  const Tensor y = gate(run.graph(), "y", x, Activation::kSilu, {0.5f, 1}, rows.row_keys);
  run.graph().keep(y);
  run.finish({y});
  run.replay(batch.batch());
  const std::vector<float> left = run.rows_of(y, batch.text_rows());
  const auto reference = [&](const auto& v, const TestBatch&) {
    const auto all = v.source("x", batch.text_rows());
    auto gated = v.input("cotangent0", batch.text_rows());  // for its shape
    for (std::int64_t r = 0; r < gated.rows; ++r) {
      for (std::int64_t c = 0; c < gated.cols; ++c) {
        const bool dropped = left[static_cast<std::size_t>(r * gated.cols + c)] == 0.0f;
        gated(r, c) = activation_of(all(r, c), Activation::kSilu) * all(r, 24 + c) * Dual(dropped ? 0.0 : 2.0);
      }
    }
    return v.loss({gated});
  };
  expect_gradients(run, {batch}, reference, "dropped");
  const auto zeros = std::count(left.begin(), left.end(), 0.0f);
  EXPECT_NEAR(static_cast<double>(zeros) / static_cast<double>(left.size()), 0.5, 0.1);
}

// sum - x is what dropout left of h: its zeros are the mask that the gradient must have.
TEST(Dropout, BeforeANormBackwardDropsTheSameElements) {
  for (const bool has_mean : {true, false}) {
    for (int which = 0; which < 3; ++which) {
      std::vector<TestBatch> batches = batches_with_pictures(1, 4);
      GraphRun run(kBounds);
      Graph& graph = run.graph();
      const SampleRows rows = which == 0 ? run.text() : which == 1 ? run.first_of_samples() : run.pictures(4);
      const Tensor x = run.input("x", rows.extent, 24), h = run.source("h", rows.extent, 24);
      const Tensor w = run.parameter("w", 1, 24), b = has_mean ? run.parameter("b", 1, 24) : Tensor{};
      const Normalized n = has_mean ? add_layer_norm(graph, "n", x, h, w, b, 1e-5f, {0.5f, 1}, rows.row_keys)
                                    : add_rms_norm(graph, "n", x, h, w, 1e-5f, {0.5f, 1}, rows.row_keys);
      graph.keep(n.sum);
      run.finish({n.y});
      const TestBatch& batch = batches[2];
      run.replay(batch.batch());
      const std::int64_t count = rows.extent.at(batch.batch().counts);
      const std::vector<float> sum = run.rows_of(n.sum, count), plain = run.values("x");
      const auto reference = [&](const auto& v, const TestBatch&) {
        auto total = v.source("h", count);
        for (std::size_t i = 0; i < total.values.size(); ++i) {
          const bool dropped = sum[i] == plain[i];
          total.values[i] = (dropped ? Dual(0.0) : total.values[i] * Dual(2.0)) + Dual(static_cast<double>(plain[i]));
        }
        constexpr double kEpsilon = static_cast<double>(1e-5f);
        return v.loss({has_mean ? layer_norm_of(total, v.matrix("w"), v.matrix("b"), kEpsilon)
                                : rms_norm_of(total, v.matrix("w"), kEpsilon)});
      };
      expect_gradients(run, {batch}, reference, "dropped");
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_dropout
