// SPDX-License-Identifier: Apache-2.0
// The bias by distance and causal attention: the buckets that published T5 has, gradients against exact derivatives,
// and bits that no number of threads and no recomputation changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/attention.h"
#include "src/base/span.h"
#include "src/graph/element_types.h"
#include "src/graph/operations.h"
#include "src/graph/recompute.h"
#include "tests/graph/gradient_check.h"
#include "tests/graph/some_batches.h"

namespace bascule::test::test_relative_bias {
namespace {

// The rule as Raffel et al. and Transformers have it, in plain float64.
std::int64_t relative_bucket(const RelativeBuckets& rule, std::int64_t distance) {
  const std::int64_t buckets = rule.bidirectional ? rule.buckets / 2 : rule.buckets, exact = buckets / 2;
  const std::int64_t offset = rule.bidirectional && distance > 0 ? buckets : 0;
  const std::int64_t far = rule.bidirectional ? std::abs(distance) : std::max<std::int64_t>(0, -distance);
  if (far < exact) return offset + far;
  const double first = static_cast<double>(exact), most = static_cast<double>(rule.max_distance);
  const double share = std::log(static_cast<double>(far) / first) / std::log(most / first);
  const auto further = static_cast<std::int64_t>(share * static_cast<double>(buckets - exact));
  return offset + std::min(buckets - 1, exact + further);
}

// The first distances of buckets that hold several, of 16 buckets and of 32, with a greatest distance of 128. The table
// holds the numbers of its rows, so the bias is the bucket of each distance.
TEST(RelativeBias, HasTheRangesOfPublishedModels) {
  constexpr std::int64_t kFar = 3000;
  const std::vector<std::int64_t> encoder = {8, 12, 16, 23, 32, 46, 64, 91};
  const std::vector<std::int64_t> decoder = {16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113};
  const auto bucket_of = [](const std::vector<std::int64_t>& ranges, std::int64_t distance) {
    std::int64_t bucket = std::min(distance, ranges.front() - 1);
    for (const std::int64_t first : ranges) bucket += first <= distance ? 1 : 0;
    return static_cast<float>(bucket);
  };
  std::vector<float> numbers(32);
  for (std::size_t row = 0; row < numbers.size(); ++row) numbers[row] = static_cast<float>(row);
  for (const bool is_decoder : {false, true}) {
    GraphRun run(kBounds);
    const Tensor bias =
        relative_position_bias(run.graph(), "bias", run.parameter("table", 32, 1), {32, 128, !is_decoder}, kFar);
    run.graph().keep(bias);
    run.seal(kernels_for(best_isa()));
    run.set_values("table", numbers);
    run.replay(some_batches()[0].batch());
    const float* const at_zero = run.at(bias) + kFar - 1;
    for (std::int64_t distance = 0; distance < kFar; ++distance) {
      ASSERT_EQ(at_zero[-distance], bucket_of(is_decoder ? decoder : encoder, distance)) << -distance;
      if (distance == 0) continue;
      ASSERT_EQ(at_zero[distance], is_decoder ? 0.0f : 16.0f + bucket_of(encoder, distance)) << distance;
    }
  }
}

constexpr std::int64_t kHeads = 3, kSize = 5, kWidth = kHeads * kSize;
constexpr std::int64_t kSpan = 17;  // of the longest caption of some_batches()

// Two layers of a stack that share a bias; of a decoder it is causal.
struct Stack {
  bool causal;
  RelativeBuckets rule;
  float scale = 1.0f;
  bool trained = true;
  std::int64_t span = kSpan;
  DropoutPlace dropout = {};
};

constexpr Stack kEncoder{false, {8, 12, true}}, kDecoder{true, {6, 10, false}};

Tensor record_layer(GraphRun& run, const Stack& stack, const std::string& name, Tensor all, Tensor bias) {
  return attention(run.graph(), name, {all, 0}, run.text(), {all, kWidth}, {all, 2 * kWidth}, run.text(), kHeads, kSize,
                   stack.dropout, run.field("sample_keys"), {stack.scale, stack.causal, bias});
}

Tensor record_bias(GraphRun& run, const Stack& stack) {
  const Tensor table = run.parameter("table", stack.rule.buckets, kHeads, stack.trained);
  return relative_position_bias(run.graph(), "bias", table, stack.rule, stack.span);
}

std::vector<Tensor> record(GraphRun& run, const Stack& stack) {
  const Tensor bias = record_bias(run, stack);
  std::vector<Tensor> outputs;
  for (const std::string name : {"a", "b"})
    outputs.push_back(record_layer(run, stack, name, run.source("of_" + name, text_rows(), 3 * kWidth), bias));
  return outputs;
}

template <typename Number>
Matrix<Number> layer_of(const Matrix<Number>& all, const Matrix<Number>& table, const Stack& stack,
                        const TestBatch& batch) {
  using std::exp;
  Matrix<Number> out(all.rows, kWidth);
  for (std::int64_t s = 0; s < batch.samples(); ++s) {
    const std::int64_t first = batch.offsets[static_cast<std::size_t>(s)];
    const std::int64_t end = batch.offsets[static_cast<std::size_t>(s) + 1];
    for (std::int64_t h = 0; h < kHeads; ++h) {
      for (std::int64_t i = first; i < end; ++i) {
        std::vector<Number> weights;
        Number sum = 0.0;
        for (std::int64_t j = first; j < (stack.causal ? i + 1 : end); ++j) {
          Number score = 0.0;
          for (std::int64_t c = 0; c < kSize; ++c) score += all(i, h * kSize + c) * all(j, kWidth + h * kSize + c);
          weights.push_back(
              exp(score * Number(static_cast<double>(stack.scale)) + table(relative_bucket(stack.rule, j - i), h)));
          sum += weights.back();
        }
        for (std::int64_t c = 0; c < kSize; ++c) {
          for (std::size_t j = 0; j < weights.size(); ++j)
            out(i, h * kSize + c) +=
                weights[j] / sum * all(first + static_cast<std::int64_t>(j), 2 * kWidth + h * kSize + c);
        }
      }
    }
  }
  return out;
}

TEST(RelativeBias, TwoLayersOfRaggedTextsAndTheirTableAreExact) {
  for (Stack stack : {kEncoder, kDecoder}) {
    for (const std::int64_t span : {kSpan, std::int64_t{40}}) {
      stack.span = span;
      stack.scale = span == kSpan ? 1.0f : 0.4f;
      check_gradients(
          kBounds, some_batches(), [=](GraphRun& run) { return record(run, stack); },
          [=](const auto& v, const TestBatch& batch) {
            using Number = std::decay_t<decltype(v.matrix("table").values[0])>;
            std::vector<Matrix<Number>> outputs;
            for (const std::string name : {"of_a", "of_b"})
              outputs.push_back(layer_of(v.source(name, batch.text_rows()), v.matrix("table"), stack, batch));
            return v.loss(outputs);
          });
    }
  }
}

TEST(RelativeBias, AFrozenTableLeavesTheOthersExactAndHasNoGradient) {
  Stack stack = kEncoder;
  stack.trained = false;
  check_gradients(
      kBounds, some_batches(), [=](GraphRun& run) { return record(run, stack); },
      [=](const auto& v, const TestBatch& batch) {
        using Number = std::decay_t<decltype(v.matrix("table").values[0])>;
        std::vector<Matrix<Number>> outputs;
        for (const std::string name : {"of_a", "of_b"})
          outputs.push_back(layer_of(v.source(name, batch.text_rows()), v.matrix("table"), stack, batch));
        return v.loss(outputs);
      });
  GraphRun run(kBounds);
  run.finish(record(run, stack));
  EXPECT_FALSE(run.graph().find("d_bias"));
  EXPECT_FALSE(run.graph().find("d_bias_parts"));
}

TEST(RelativeBias, ATableAloneMayBeTrained) {
  const auto sources = [](const auto& v, const TestBatch& batch) { return v.input("all", batch.text_rows()); };
  check_gradients(
      kBounds, some_batches(),
      [](GraphRun& run) {
        const Tensor all = run.input("all", text_rows(), 3 * kWidth);
        return std::vector<Tensor>{record_layer(run, kDecoder, "a", all, record_bias(run, kDecoder))};
      },
      [=](const auto& v, const TestBatch& batch) {
        return v.loss({layer_of(sources(v, batch), v.matrix("table"), kDecoder, batch)});
      });
}

TEST(RelativeBias, NumberOfThreadsChangesNoBit) {
  for (Stack stack : {kEncoder, kDecoder}) {
    stack.dropout = {0.25f, 3};
    std::vector<std::vector<float>> first;  // by batch
    for (const int threads : {1, 2, 4}) {
      GraphRun run(kBounds, threads);
      run.finish(record(run, stack));
      std::vector<std::vector<float>> gradients;
      for (const TestBatch& batch : some_batches()) {
        run.replay(batch.batch(), 1.0f, false, 5);
        gradients.push_back(run.all_gradients());
      }
      if (first.empty()) first = gradients;
      for (std::size_t i = 0; i < first.size(); ++i)
        EXPECT_EQ(first_different_bit(gradients[i], first[i]), -1) << threads << " threads, batch " << i;
    }
  }
}

// The first layer has a bias of its own, which is computed again with it; the second one's is also that of the third.
void record_deep(GraphRun& run, const Stack& stack) {
  Graph& g = run.graph();
  Tensor x = run.source("x", text_rows(), kWidth), bias;
  const Tensor table = run.parameter("table", stack.rule.buckets, kHeads);
  for (int number = 0; number < 3; ++number) {
    const std::string name = "layer" + std::to_string(number);
    g.set_scope(name);
    if (number < 2) bias = relative_position_bias(g, name + ".bias", table, stack.rule, stack.span);
    const Tensor all = linear(g, name + ".all", x, run.parameter(name + ".w", 3 * kWidth, kWidth), Tensor{});
    const Tensor context = record_layer(run, stack, name + ".attention", all, bias);
    x = linear(g, name + ".out", context, run.parameter(name + ".o", kWidth, kWidth), Tensor{});
  }
  cross_entropy_loss(g, linear(g, "logits", x, run.parameter("head.w", 7, kWidth), Tensor{}), run.field("labels"));
  derive_backward(g);
}

TEST(RelativeBias, RecomputedLayersHaveTheSameBits) {
  for (Stack stack : {kEncoder, kDecoder}) {
    stack.dropout = {0.25f, 3};
    GraphRun plain(kBounds), recomputed(kBounds);
    record_deep(plain, stack);
    record_deep(recomputed, stack);
    Graph& g = recomputed.graph();
    recompute(g, std::vector<Recompute>(layers_of(g).size(), Recompute::kAll));
    int attentions = 0, biases = 0;
    for (const Node& node : g.nodes()) {
      attentions += node.again && node.kind->name == std::string("attention") ? 1 : 0;
      biases += node.again && node.kind->name == std::string("relative_position_bias") ? 1 : 0;
    }
    EXPECT_EQ(attentions, 2);
    EXPECT_EQ(biases, 1);
    plain.seal(kernels_for(best_isa()));
    recomputed.seal(kernels_for(best_isa()));
    for (const TestBatch& batch : labelled_batches(7)) {
      plain.replay(batch.batch(), 1.0f, false, 5);
      recomputed.replay(batch.batch(), 1.0f, false, 5);
      for (int p = 0; p < plain.parameters().size(); ++p) {
        const std::string& name = plain.parameters()[p].name;
        EXPECT_EQ(first_different_bit(recomputed.gradient(name), plain.gradient(name)), -1) << name;
      }
    }
  }
}

TEST(RelativeBias, InBf16TheBiasStaysFloat32) {
  Stack stack = kEncoder;
  stack.scale = 0.2f;  // large scores would have large roundings
  GraphRun run(kBounds);
  record_deep(run, stack);
  choose_element_types(run.graph());
  const Graph& g = run.graph();
  for (const char* name : {"layer1/layer1.bias", "layer2/d_layer1.bias", "layer2/d_bias_parts"}) {
    ASSERT_TRUE(g.find(name)) << name;
    EXPECT_EQ(g[g.find(name)].dtype, DType::kFloat32) << name;
  }
  EXPECT_EQ(g[g.find("layer1/layer1.attention")].dtype, DType::kBFloat16);
  run.seal(kernels_for(best_isa()));
  GraphRun plain(kBounds);
  record_deep(plain, stack);
  plain.seal(kernels_for(best_isa()));
  for (const TestBatch& batch : labelled_batches(7)) {
    run.replay(batch.batch());
    plain.replay(batch.batch());
    const std::vector<float> table = plain.gradient("table");
    if (batch.samples() == 1) continue;  // one token: the gradient is zero
    EXPECT_LT(relative_l2(run.gradient("table"), std::vector<double>(table.begin(), table.end())), 0.1);
  }
}

// As when a text is generated: the last token of each sample reads the keys of all.
TEST(Attention, ALastTokenAloneHasTheBitsThatItHasInItsText) {
  GraphRun run(kBounds);
  const Tensor all = run.source("x", text_rows(), 3 * kWidth), bias = record_bias(run, kDecoder);
  const Tensor together = record_layer(run, kDecoder, "together", all, bias);
  const Tensor last = gather_rows(run.graph(), "last", all, run.field("selected_rows"));
  const Tensor alone =
      attention(run.graph(), "alone", {last, 0}, run.first_of_samples(), {all, kWidth}, {all, 2 * kWidth}, run.text(),
                kHeads, kSize, {}, {}, {kDecoder.scale, kDecoder.causal, bias});
  for (const Tensor tensor : {together, alone}) run.graph().keep(tensor);
  run.seal(kernels_for(best_isa()));
  for (TestBatch batch : some_batches()) {
    batch.selected.clear();
    for (std::int64_t s = 0; s < batch.samples(); ++s)
      batch.selected.push_back(batch.offsets[static_cast<std::size_t>(s) + 1] - 1);
    run.replay(batch.batch());
    for (std::int64_t s = 0; s < batch.samples(); ++s) {
      const float* const of_all = run.at(together) + batch.selected[static_cast<std::size_t>(s)] * kWidth;
      const float* const own = run.at(alone) + s * kWidth;
      EXPECT_EQ(first_different_bit(std::vector<float>(own, own + kWidth), std::vector<float>(of_all, of_all + kWidth)),
                -1);
    }
  }
}

// Scratch is for the longest sample, not for a batch of one that has all rows.
TEST(Attention, ScratchIsThatOfTheLongestSample) {
  BatchCounts known = kBounds;
  known.longest[kText] = kSpan;
  GraphRun any(kBounds), longest(known);
  any.finish(record(any, kEncoder));
  longest.finish(record(longest, kEncoder));
  const std::size_t all = plan_workspace(any.graph()).thread_scratch_bytes,
                    one = plan_workspace(longest.graph()).thread_scratch_bytes;
  const auto bytes = [](std::int64_t keys) {
    const std::int64_t floats =
        std::max(attention_forward_scratch_floats(keys, kSize), attention_backward_scratch_floats(keys, kSize));
    return align_up(static_cast<std::size_t>(floats) * sizeof(float), kPage);
  };
  EXPECT_EQ(all, bytes(kBounds[kText]));
  EXPECT_EQ(one, bytes(kSpan));
  EXPECT_LT(one, all);
  for (const TestBatch& batch : some_batches()) {
    any.replay(batch.batch());
    longest.replay(batch.batch());
    EXPECT_EQ(first_different_bit(any.all_gradients(), longest.all_gradients()), -1);
  }
}

TEST(Attention, CausalCostsHalf) {
  GraphRun run(kBounds);
  const Tensor all = run.source("x", text_rows(), 3 * kWidth);
  (void)record_layer(run, {false, {}}, "full", all, {});
  (void)record_layer(run, {true, {}}, "causal", all, {});
  const Graph& g = run.graph();
  const double full = cost_of(g, g.nodes()[g.nodes().size() - 2], counts_of(2, 40, 0)).flops;
  const double causal = cost_of(g, g.nodes().back(), counts_of(2, 40, 0)).flops;
  EXPECT_DOUBLE_EQ(full, 2.0 * 2.0 * 2.0 * 20.0 * 20.0 * kWidth);
  EXPECT_DOUBLE_EQ(causal, full * 10.5 / 20.0);
}

}  // namespace
}  // namespace bascule::test::test_relative_bias
