// SPDX-License-Identifier: Apache-2.0
// Losses against exact derivatives of plain loops in float64, at odd widths and
// batch sizes. Cotangents are random, so that a wrong row or column cannot cancel.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "src/graph/operations.h"
#include "tests/graph/gradient_check.h"
#include "tests/graph/some_batches.h"

namespace bascule::test::test_losses {
namespace {

TEST(ContrastiveLoss, LossAndGradientsAreExactForAnyBatch) {
  for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{2, 1, 3}, std::vector<std::int64_t>{1, 1},
                                                   std::vector<std::int64_t>{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}) {
    Seeded random(6);
    check_gradients(
        counts_of(12, 40, 20), {TestBatch(random, lengths, kVocabulary)},
        [](GraphRun& run) {
          const auto embedding = [&](const char* name) {
            return normalize(run.graph(), name, run.source(name, rows_per_sample(1), 5));
          };
          const Tensor t = embedding("t"), i = embedding("i"), c = embedding("c");
          contrastive_loss(run.graph(), t, i, c, run.parameter("scale", 1, 1));
          return std::vector<Tensor>{};
        },
        [](const auto& v, const TestBatch& batch) {
          const std::int64_t rows = batch.samples();
          std::vector<std::int32_t> diagonal;
          for (std::int32_t s = 0; s < static_cast<std::int32_t>(rows); ++s) diagonal.push_back(s);
          const auto t = normalized_of(v.source("t", rows)), i = normalized_of(v.source("i", rows)),
                     c = normalized_of(v.source("c", rows));
          const auto pair = [&](const auto& a, const auto& b) {
            auto logits = linear_of(a, b);
            for (auto& logit : logits.values) logit = logit * exp(v.matrix("scale")(0, 0));
            return cross_entropy_of(logits, diagonal);
          };
          return (pair(t, i) + pair(t, c) + pair(i, c)) / Dual(3.0);
        });
  }
}

TEST(ContrastiveLoss, OneSampleAloneHasNeitherLossNorGradient) {
  GraphRun run(kBounds);
  const auto embedding = [&](const char* name) {
    return normalize(run.graph(), name, run.source(name, rows_per_sample(1), 5));
  };
  const Tensor t = embedding("t"), i = embedding("i"), c = embedding("c");
  const Tensor loss = contrastive_loss(run.graph(), t, i, c, run.parameter("scale", 1, 1));
  run.finish({});
  run.replay(some_batches()[1].batch());
  EXPECT_EQ(*run.at(loss), 0.0f);
  for (const float element : run.gradient("t.weight")) EXPECT_EQ(element, 0.0f);
  EXPECT_EQ(run.gradient("scale")[0], 0.0f);
}

TEST(CrossEntropyLoss, NegativeLabelsAreNotCounted) {
  check_gradients(
      kBounds, labelled_batches(37),
      [](GraphRun& run) {
        cross_entropy_loss(run.graph(), run.source("logits", text_rows(), 37), run.field("labels"));
        return std::vector<Tensor>{};
      },
      [](const auto& v, const TestBatch& batch) {
        return cross_entropy_of(v.source("logits", batch.text_rows()), batch.labels);
      });
}

// Each term by itself, then both with weights of their own.
TEST(CrossEntropyLoss, EachTermIsScaledByItsOwnWeight) {
  std::vector<std::vector<float>> gradients;
  for (const auto& [first, second] : {std::pair{1.0f, 0.0f}, {0.0f, 1.0f}, {0.25f, 3.0f}}) {
    GraphRun run(kBounds);
    const Tensor x = run.source("x", text_rows(), 9);
    for (const int term : {0, 1}) {
      const Tensor weight = run.parameter("head" + std::to_string(term), 37, 9);
      cross_entropy_loss(run.graph(), linear(run.graph(), "logits", x, weight, {}), run.field("labels"), 0.0f, {},
                         term);
    }
    run.finish({});
    run.replay(labelled_batches(37)[0].batch(), first, false, 0, second);
    gradients.push_back(run.gradient("x.weight"));
    for (const auto& [head, weight] : {std::pair{"head0", first}, {"head1", second}}) {
      const std::vector<float> of_head = run.gradient(head);
      const bool has_any = std::any_of(of_head.begin(), of_head.end(), [](float element) { return element != 0.0f; });
      EXPECT_EQ(has_any, weight > 0.0f) << head;
    }
  }
  for (std::size_t i = 0; i < gradients[0].size(); ++i) {
    const float sum = 0.25f * gradients[0][i] + 3.0f * gradients[1][i];
    EXPECT_NEAR(gradients[2][i], sum, 1e-5f * (1.0f + std::fabs(sum)));
  }
}

TEST(CrossEntropyLoss, SmoothingSpreadsAShareOfTheLabelOverAllClasses) {
  for (const std::int64_t classes : {2, 37}) {
    check_gradients(
        kBounds, labelled_batches(classes),
        [&](GraphRun& run) {
          cross_entropy_loss(run.graph(), run.source("logits", text_rows(), classes), run.field("labels"), 0.25f);
          return std::vector<Tensor>{};
        },
        [](const auto& v, const TestBatch& batch) {
          return cross_entropy_of(v.source("logits", batch.text_rows()), batch.labels, 0.25);
        });
  }
}

// Some rows are mixed with one of their own class.
TEST(CrossEntropyLoss, OfMixedLabelsIsTheMeanByTheirShares) {
  for (const float smoothing : {0.0f, 0.25f}) {
    check_gradients(
        kBounds, labelled_batches(3),
        [&](GraphRun& run) {
          const MixedLabels mixed{run.field("token_types"), run.input("shares", text_rows(), 1)};
          cross_entropy_loss(run.graph(), run.source("logits", text_rows(), 3), run.field("labels"), smoothing, mixed);
          return std::vector<Tensor>{};
        },
        [&](const auto& v, const TestBatch& batch) {
          const auto logits = v.source("logits", batch.text_rows());
          const auto shares = v.input("shares", batch.text_rows());
          Dual total = 0.0, counted = 0.0;
          for (std::int64_t r = 0; r < logits.rows; ++r) {
            const std::size_t i = static_cast<std::size_t>(r);
            if (batch.labels[i] < 0) continue;
            const auto row = block_of(logits, r, 1, 0, logits.cols);
            const Dual share = shares(r, 0);
            total += share * cross_entropy_of(row, {batch.labels[i]}, static_cast<double>(smoothing)) +
                     (Dual(1.0) - share) * cross_entropy_of(row, {batch.types[i]}, static_cast<double>(smoothing));
            counted += Dual(1.0);
          }
          return total / counted;
        });
  }
}

TEST(SquaredErrorLoss, IsTheMeanOverTheRows) {
  check_gradients(
      kBounds, labelled_batches(3),
      [](GraphRun& run) {
        squared_error_loss(run.graph(), run.source("values", text_rows(), 1), run.input("labels", text_rows(), 1));
        return std::vector<Tensor>{};
      },
      [](const auto& v, const TestBatch& batch) {
        const auto values = v.source("values", batch.text_rows());
        const auto labels = v.input("labels", batch.text_rows());
        Dual total = 0.0;
        for (std::int64_t r = 0; r < values.rows; ++r)
          total += (values(r, 0) - labels(r, 0)) * (values(r, 0) - labels(r, 0));
        return total / Dual(static_cast<double>(values.rows));
      });
}

TEST(SquaredErrorLoss, IsScaledByTheWeightOfItsTerm) {
  GraphRun run(kBounds);
  const Tensor labels = run.input("labels", text_rows(), 1);
  for (const int term : {0, 1})
    squared_error_loss(run.graph(), run.source("x" + std::to_string(term), text_rows(), 1), labels, term);
  run.finish({});
  run.replay(labelled_batches(3)[0].batch(), 0.0f, false, 0, 2.0f);
  for (const float element : run.gradient("x0.weight")) EXPECT_EQ(element, 0.0f);
  const std::vector<float> of_second = run.gradient("x1.weight");
  EXPECT_TRUE(std::any_of(of_second.begin(), of_second.end(), [](float element) { return element != 0.0f; }));
}

TEST(CrossEntropyLoss, WithoutALabelLossAndGradientAreZero) {
  std::vector<TestBatch> batches = labelled_batches(7);
  std::fill(batches[0].labels.begin(), batches[0].labels.end(), -100);
  GraphRun run(kBounds);
  const ClassLoss loss =
      cross_entropy_loss(run.graph(), run.source("logits", text_rows(), 7), run.field("labels"), 0.1f);
  run.finish({});
  run.replay(batches[0].batch());
  EXPECT_EQ(*run.at(loss.loss), 0.0f);
  for (const float element : run.gradient("logits.weight")) EXPECT_EQ(element, 0.0f);
}

// The second row has its largest logit twice.
TEST(ClassPredictions, AreTheLargestLogitsInOrderAndTheProbabilityOfTheLabel) {
  for (const std::int64_t classes : {2, 37, 5000}) {
    for (const TestBatch& batch : labelled_batches(classes)) {
      GraphRun run(kBounds);
      const Tensor logits = run.input("logits", text_rows(), classes), labels = run.field("labels");
      const ClassPredictions predictions =
          class_predictions(run.graph(), logits, labels, cross_entropy_loss(run.graph(), logits, labels, 0.5f));
      run.seal(kernels_for(best_isa()));
      std::vector<float> values = run.values("logits");
      const std::size_t width = static_cast<std::size_t>(classes);
      values[width] = values[2 * width - 1] = 25.0f;
      run.set_values("logits", values);
      run.replay(batch.batch());
      for (std::size_t r = 0; r < static_cast<std::size_t>(batch.text_rows()); ++r) {
        const std::int32_t label = batch.labels[r];
        const float* const row = values.data() + r * width;
        const std::int64_t largest = std::max_element(row, row + width) - row;
        double sum = 0.0;
        for (std::size_t c = 0; c < width; ++c) sum += std::exp(static_cast<double>(row[c]));
        const double own = label < 0 ? 0.0 : std::exp(static_cast<double>(row[label])) / sum;
        const std::size_t best = std::min<std::size_t>(static_cast<std::size_t>(kPredictedClasses), width);
        std::vector<std::int32_t> order(width);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [row](std::int32_t a, std::int32_t b) { return row[a] > row[b]; });
        EXPECT_EQ(order[0], largest);
        for (std::size_t i = 0; i < best; ++i) {
          const double share = label < 0 ? 0.0 : std::exp(static_cast<double>(row[order[i]])) / sum;
          EXPECT_EQ(run.at_int32(predictions.classes)[r * best + i], label < 0 ? 0 : order[i]);
          EXPECT_NEAR(static_cast<double>(run.at(predictions.class_probabilities)[r * best + i]), share, 1e-5 * share);
        }
        EXPECT_NEAR(static_cast<double>(run.at(predictions.probabilities)[r]), own, 1e-5 * own);
      }
    }
  }
}

// The gradient of a step of two micro-batches: each with its weight, in one float32 sum.
TEST(Losses, LossWeightScalesGradientsAndNotTheLoss) {
  const std::vector<TestBatch> batches = labelled_batches(5);
  GraphRun run(kBounds);
  const ClassLoss loss = cross_entropy_loss(run.graph(), run.source("logits", text_rows(), 5), run.field("labels"));
  run.finish({});
  const auto reference = [](const auto& v, const TestBatch& batch) {
    return cross_entropy_of(v.source("logits", batch.text_rows()), batch.labels);
  };
  run.replay(batches[0].batch(), 0.25f);
  const double plain = reference(Values<Dual>(run), batches[0]).value;
  EXPECT_NEAR(static_cast<double>(*run.at(loss.loss)), plain, kGradientTolerance * plain);
  run.replay(batches[2].batch(), 0.75f, true);
  std::vector<double> truth = exact_gradients(run, {batches[0]}, reference).at("logits.weight");
  const std::vector<double> other = exact_gradients(run, {batches[2]}, reference).at("logits.weight");
  for (std::size_t i = 0; i < truth.size(); ++i) truth[i] = 0.25 * truth[i] + 0.75 * other[i];
  EXPECT_LE(relative_l2(run.gradient("logits.weight"), truth), kGradientTolerance);
}

TEST(CrossEntropyLoss, HitsSayWhetherTheLargestLogitIsTheLabels) {
  TestBatch batch = labelled_batches(5)[2];
  GraphRun run(kBounds);
  const Tensor x = run.input("x", text_rows(), 5);
  const ClassLoss loss = cross_entropy_loss(run.graph(), x, run.field("labels"));
  run.seal(kernels_for(best_isa()));
  run.replay(batch.batch());
  const std::vector<float> logits = run.values("x");
  for (std::size_t r = 0; r < 40; ++r) {
    const auto row = logits.begin() + static_cast<std::ptrdiff_t>(5 * r);
    const bool hit = batch.labels[r] == std::max_element(row, row + 5) - row;
    EXPECT_EQ(run.at_int32(loss.hits)[r], hit ? 1 : 0) << r;
  }
}

TEST(LogSums, MakeLogarithmsOfProbabilities) {
  GraphRun run(kBounds);
  const Tensor logits = run.source("logits", text_rows(), 37);
  const LogSums sums = log_sums(run.graph(), logits);
  for (const Tensor kept : {logits, sums.top, sums.log_sum}) run.graph().keep(kept);
  run.seal(kernels_for(best_isa()));
  for (const TestBatch& batch : some_batches()) {
    run.replay(batch.batch());
    for (std::int64_t row = 0; row < batch.text_rows(); ++row) {
      const float* const x = run.at(logits) + row * 37;
      const double top = static_cast<double>(*std::max_element(x, x + 37));
      double sum = 0.0;
      for (std::int64_t c = 0; c < 37; ++c) sum += std::exp(static_cast<double>(x[c]) - top);
      EXPECT_EQ(static_cast<double>(run.at(sums.top)[row]), top);
      EXPECT_NEAR(static_cast<double>(run.at(sums.log_sum)[row]), std::log(sum), 1e-6);
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_losses
