// SPDX-License-Identifier: Apache-2.0
// Losses of embeddings against exact derivatives of plain loops in float64, at odd widths and batch sizes, and over
// several ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "src/graph/operations.h"
#include "tests/graph/gradient_check.h"
#include "tests/graph/some_batches.h"

namespace bascule::test::test_embedding_losses {
namespace {

constexpr float kScale = 20.0f;

// Samples of one token each.
TestBatch batch_of(std::int64_t samples) {
  Seeded random(6);
  return {random, std::vector<std::int64_t>(static_cast<std::size_t>(samples), 1), kVocabulary};
}

template <typename Number>
Number cosine_of(const Matrix<Number>& units, std::int64_t i, std::int64_t j) {
  Number sum = 0.0;
  for (std::int64_t c = 0; c < units.cols; ++c) sum += units(i, c) * units(j, c);
  return sum;
}

template <typename Number>
Number ranking_of(const Matrix<Number>& units, std::int64_t texts, bool is_symmetric) {
  const std::int64_t samples = units.rows / texts;
  Matrix<Number> logits(samples, (texts - 1) * samples), back(samples, samples);
  std::vector<std::int32_t> diagonal;
  for (std::int64_t i = 0; i < samples; ++i) {
    diagonal.push_back(static_cast<std::int32_t>(i));
    for (std::int64_t j = 0; j < samples; ++j) {
      for (std::int64_t text = 1; text < texts; ++text)
        logits(i, (text - 1) * samples + j) =
            Number(static_cast<double>(kScale)) * cosine_of(units, i * texts, j * texts + text);
      back(i, j) = Number(static_cast<double>(kScale)) * cosine_of(units, i * texts + 1, j * texts);
    }
  }
  const Number forward = cross_entropy_of(logits, diagonal);
  return is_symmetric ? (forward + cross_entropy_of(back, diagonal)) / Number(2.0) : forward;
}

TEST(RankingLoss, LossAndGradientsAreExactForAnyBatch) {
  for (const std::int64_t texts : {2, 3, 5}) {
    for (const bool is_symmetric : {false, true}) {
      check_gradients(
          counts_of(12, 40, 20), {batch_of(3), batch_of(1), batch_of(11)},
          [=](GraphRun& run) {
            const Tensor x = run.source("x", rows_per_sample(texts), 5);
            ranking_loss(run.graph(), x, texts, kScale, is_symmetric);
            return std::vector<Tensor>{};
          },
          [=](const auto& v, const TestBatch& batch) {
            return ranking_of(normalized_of(v.source("x", texts * batch.samples())), texts, is_symmetric);
          });
    }
  }
}

// Another loss reads the embeddings too: gradients add up.
TEST(RankingLoss, ItsGradientIsAddedToAnothers) {
  GraphRun run(counts_of(12, 40, 20));
  const Tensor x = run.source("x", rows_per_sample(3), 5);
  const Tensor loss = ranking_loss(run.graph(), x, 3, kScale, true);
  run.finish({scale(run.graph(), "y", x, 0.5f)});
  const TestBatch batch = batch_of(7);
  run.replay(batch.batch());
  expect_gradients(
      run, {batch},
      [](const auto& v, const TestBatch& of) {
        auto y = v.source("x", 3 * of.samples());
        const Dual ranking = ranking_of(normalized_of(y), 3, true);
        for (auto& value : y.values) value = value * Dual(0.5);
        return ranking + v.loss({y});
      },
      "both");
  EXPECT_GT(*run.at(loss), 0.0f);
}

TEST(RankingLoss, OneSampleWithoutNegativesHasNeitherLossNorGradient) {
  GraphRun run(kBounds);
  const Tensor loss = ranking_loss(run.graph(), run.source("x", rows_per_sample(2), 5), 2, kScale, true);
  run.finish({});
  run.replay(batch_of(1).batch());
  EXPECT_EQ(*run.at(loss), 0.0f);
  for (const float element : run.gradient("x.weight")) EXPECT_EQ(element, 0.0f);
}

// Ranks of 4, 0 and 5 samples, one after another: each has the loss of all nine, and their gradients are together those
// of one process.
TEST(RankingLoss, OverRanksIsThatOfAllTheirSamples) {
  constexpr std::int64_t kTexts = 3, kAll = 9, kWidth = 5;
  for (const bool is_symmetric : {false, true}) {
    const auto record = [&](GraphRun& run) {
      return ranking_loss(run.graph(), run.source("x", rows_per_sample(kTexts), kWidth), kTexts, kScale, is_symmetric);
    };
    GraphRun whole(counts_of(kAll, 40, 20));
    const Tensor loss = record(whole), units = whole.graph().find("units");
    whole.graph().keep(units);
    whole.finish({});
    whole.replay(batch_of(kAll).batch());
    const std::vector<float> inputs = whole.values("x.input"), all = whole.rows_of(units, kTexts * kAll);
    std::vector<float> sum(whole.gradient("x.weight").size(), 0.0f);
    std::int64_t first = 0;
    for (const std::int64_t own : {4, 5}) {
      BatchCounts bounds = counts_of(own, 40, 20);
      bounds[kSamplesOfAllRanks] = kAll;
      GraphRun run(bounds);
      const Tensor of_all = record(run);
      run.finish({});
      std::vector<float> rows = run.values("x.input");
      std::copy_n(inputs.begin() + first * kTexts * GraphRun::kSourceWidth, rows.size(), rows.begin());
      run.set_values("x.input", rows);
      run.set_values("x.weight", whole.values("x.weight"));
      Peers peers;
      peers.first = first;
      peers.context = const_cast<float*>(all.data());
      peers.gather = [](void* context, float* const* out, const float* const* from, int operands, std::int64_t count,
                        std::int64_t width) noexcept {
        EXPECT_EQ(operands, 1);
        EXPECT_EQ(width, kTexts * kWidth);
        const float* const gathered = static_cast<const float*>(context);
        EXPECT_TRUE(std::equal(from[0], from[0] + count * width, gathered + (count == 4 ? 0 : 4 * width)));
        std::copy_n(gathered, kAll * width, out[0]);
      };
      run.set_peers(peers);
      Batch batch = batch_of(own).batch();
      batch.counts[kSamplesOfAllRanks] = kAll;
      run.replay(batch);
      EXPECT_EQ(*run.at(of_all), *whole.at(loss));
      const std::vector<float> gradient = run.gradient("x.weight");
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
      first += own;
    }
    const std::vector<float> truth = whole.gradient("x.weight");
    EXPECT_LE(relative_l2(sum, std::vector<double>(truth.begin(), truth.end())), kGradientTolerance);
  }
}

template <typename Number>
Number cosent_of(const std::vector<Number>& cosines, const std::vector<Number>& labels) {
  using std::exp;
  using std::log;
  Number sum = 1.0;
  for (std::size_t i = 0; i < cosines.size(); ++i) {
    for (std::size_t j = 0; j < cosines.size(); ++j) {
      if (labels[i] < labels[j]) sum += exp(Number(static_cast<double>(kScale)) * (cosines[i] - cosines[j]));
    }
  }
  return log(sum);
}

// Labels in halves, so that many are equal.
void set_labels(GraphRun& run) {
  std::vector<float> labels = run.values("labels");
  for (float& label : labels) label = std::round(2.0f * label) / 2.0f;
  run.set_values("labels", labels);
}

void check_pairs(const std::vector<std::int64_t>& sizes, bool compares_order) {
  GraphRun run(counts_of(40, 40, 20));
  const Tensor labels = run.input("labels", rows_per_sample(1), 1);
  const Tensor cosines = pair_cosines(run.graph(), "cosines", run.source("x", rows_per_sample(2), 5));
  const Tensor loss = compares_order ? cosent_loss(run.graph(), cosines, labels, kScale)
                                     : squared_error_loss(run.graph(), cosines, labels);
  run.finish({});
  set_labels(run);
  const auto reference = [&](const auto& v, const TestBatch& batch) {
    const auto units = normalized_of(v.source("x", 2 * batch.samples()));
    const auto given = v.input("labels", batch.samples());
    std::vector<Dual> found;
    Dual squares = 0.0;
    for (std::int64_t i = 0; i < batch.samples(); ++i) {
      found.push_back(cosine_of(units, 2 * i, 2 * i + 1));
      squares += (found.back() - given(i, 0)) * (found.back() - given(i, 0));
    }
    return compares_order ? cosent_of(found, given.values) : squares / Dual(static_cast<double>(batch.samples()));
  };
  for (const std::int64_t samples : sizes) {
    const TestBatch batch = batch_of(samples);
    run.replay(batch.batch());
    const double truth = reference(Values<Dual>(run), batch).value;
    EXPECT_NEAR(static_cast<double>(*run.at(loss)), truth, kGradientTolerance * (1.0 + truth)) << samples;
    expect_gradients(run, {batch}, reference, std::to_string(samples) + " pairs");
  }
}

TEST(CosentLoss, LossAndGradientsAreExactForAnyBatch) { check_pairs({2, 3, 11, 40}, true); }

TEST(PairCosines, WithSquaredErrorsAreExactForAnyBatch) { check_pairs({1, 2, 3, 11, 40}, false); }

TEST(CosentLoss, OfEqualLabelsOrOnePairIsZero) {
  for (const std::int64_t samples : {1, 5}) {
    GraphRun run(kBounds);
    const Tensor labels = run.input("labels", rows_per_sample(1), 1);
    const Tensor x = run.source("x", rows_per_sample(2), 5);
    const Tensor loss = cosent_loss(run.graph(), pair_cosines(run.graph(), "cosines", x), labels, kScale);
    run.finish({});
    run.set_values("labels", std::vector<float>(5, 0.25f));
    run.replay(batch_of(samples).batch());
    EXPECT_EQ(*run.at(loss), 0.0f);
    for (const float element : run.gradient("x.weight")) EXPECT_EQ(element, 0.0f);
  }
}

// The exponentials of scaled cosines are beyond the numbers, the loss is not.
TEST(CosentLoss, OfALargeScaleIsFinite) {
  GraphRun run(kBounds);
  const Tensor labels = run.input("labels", rows_per_sample(1), 1),
               cosines = run.input("cosines", rows_per_sample(1), 1);
  const Tensor loss = cosent_loss(run.graph(), cosines, labels, 1000.0f);
  run.seal(kernels_for(best_isa()));
  run.set_values("labels", {1.0f, 2.0f, 3.0f, 3.0f, 1.0f});
  run.set_values("cosines", {1.0f, -1.0f, 0.5f, 0.0f, -0.5f});
  run.replay(batch_of(5).batch());
  EXPECT_NEAR(*run.at(loss), 2000.0f, 1e-3f);
}

}  // namespace
}  // namespace bascule::test::test_embedding_losses
