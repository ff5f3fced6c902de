// SPDX-License-Identifier: Apache-2.0
// Attention against the reference in float64, and that one against its exact derivative.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/kernels/attention_cases.h"
#include "tests/support/dual.h"

namespace bascule::test::test_attention {
namespace {

// Keys around the ends of blocks, heads of models that have so many, and more queries than a group.
std::vector<Shape> shapes_of_blocks() {
  constexpr std::int64_t kBlock = kAttentionKeyBlock, kGroup = kAttentionQueryGroup;
  std::vector<Shape> list;
  bool turn = false;
  for (const std::int64_t head : {1, 40, 80, 160, 512}) {
    for (const std::int64_t keys : {kBlock - 1, kBlock, kBlock + 1, 2 * kBlock, 2 * kBlock + 1, 3 * kBlock + 77}) {
      turn = !turn;
      list.push_back({head == 512 ? 2 : 7, keys, head, turn ? 0 : 3, turn, keys % 2 == 1});
    }
  }
  list.push_back({kGroup + 3, kBlock + 70, 8, 1, true, true});
  list.push_back({kBlock + 40, kBlock + 40, 16, 0, false, true, true});
  list.push_back({kBlock + 65, kBlock + 90, 5, 2, true, false, true, 0.3f});
  return list;
}

// Query rows around whole vectors and whole blocks of them, keys around the ends of vectors, of 64 that are dropped
// together, and of pieces.
std::vector<Shape> shapes_of_pieces() {
  constexpr std::int64_t kPiece = kAttentionPieceKeys;
  constexpr std::int64_t kKeys[] = {15, 16, 17, 63, 64, 65, kPiece - 1, kPiece, kPiece + 1, 2 * kPiece + 3};
  std::vector<Shape> list;
  int turn = 0;
  for (const std::int64_t rows : {15, 16, 17, 32, 33, 47, 48, 49, 63, 64, 65, 79, 112, 113}) {
    for (const std::int64_t head : {3, 20, 40, 64}) {
      const std::int64_t keys = kKeys[turn++ % 10];
      list.push_back({rows, keys, head, turn % 2 == 0 ? 5 : 0, turn % 3 == 0, turn % 4 == 1, turn % 5 < 2});
    }
  }
  return list;
}

// Every ragged size up to 40 met by some head size, with and without strides, dropout, bias and limit, and some
// sizes near those of models.
std::vector<Shape> shapes() {
  Seeded random(11);
  std::vector<Shape> list;
  for (const std::int64_t head : {1, 5, 6, 8, 12, 15, 16, 17, 24, 32, 33, 64, 72, 80}) {
    for (std::int64_t n = 1; n <= 40; n += random.integer(1, 5)) {
      list.push_back(
          {random.integer(1, 40), n, head, random.integer(0, 1) * random.integer(1, 40), random.chance(0.5)});
      list.push_back({n, random.integer(1, 40), head, 0, random.chance(0.5)});
    }
  }
  for (const bool drops : {false, true}) {
    list.push_back({49, 325, 64, 704, drops});
    list.push_back({1, 442, 64, 0, drops});
    list.push_back({130, 49, 64, 0, drops});
    list.push_back({49, 130, 80, 0, drops});
    list.push_back({17, 12, 32, 96, drops});
  }
  for (const std::int64_t head : {5, 16, 64, 128}) {
    for (std::int64_t n = 1; n <= 70; n += random.integer(1, 9)) {
      const std::int64_t keys = random.chance(0.5) ? n + kQueryPosition : random.integer(1, 70);
      const bool biased = random.chance(0.7);
      list.push_back({n, keys, head, random.integer(0, 1) * random.integer(1, 40), random.chance(0.5), biased,
                      !biased || random.chance(0.6), random.chance(0.5) ? 0.3f : 0.0f});
    }
  }
  for (const bool drops : {false, true}) {
    list.push_back({150, 153, 64, 0, drops, true, !drops, 0.2f});
    for (const bool causal : {false, true}) list.push_back({97, 200, 16, 8, drops, true, causal});
  }
  for (const std::vector<Shape>& more : {shapes_of_blocks(), shapes_of_pieces()})
    list.insert(list.end(), more.begin(), more.end());
  return list;
}

// Only the elements of the matrix: gaps between rows are compared as well, but must equal what was there before.
void expect_rows_within(const std::vector<float>& values, std::size_t begin, const std::vector<double>& truth,
                        const std::vector<double>& bound, const Shape& s, const std::string& what) {
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const bool gap = static_cast<std::int64_t>(i) % s.stride() >= s.head_size;
    const auto value = static_cast<double>(values[begin + i]);
    if (gap) {
      ASSERT_EQ(values[begin + i], -7.0e33f) << what << ": wrote between rows, element " << i;
    } else {
      ASSERT_LE(std::abs(value - truth[i]), bound[i]) << what << "[" << i << "] = " << value << ", truth " << truth[i];
    }
  }
}

TEST(Attention, ForwardIsWithinTheBoundAndTheSameOnEveryIsa) {
  Seeded random;
  int turn = 0;
  for (const Shape& s : shapes()) {
    SCOPED_TRACE(s.text());
    const Inputs in = random_inputs(s, random);
    const Place place = kPlaces[turn++ % 3];
    const std::vector<float> result = same_on_every_isa(
        [&](const KernelTable& kernels) { return run_forward(kernels, in, s, forward_call(s), place); });
    std::vector<double> out = zeros(s.extent(s.query_rows));
    std::vector<double> logsumexp = zeros(s.query_rows);
    reference::attention_forward(out.data(), logsumexp.data(), widened(in.query).data(), widened(in.key).data(),
                                 widened(in.value).data(), at_distance_zero(widened(in.bias).data(), s),
                                 forward_call(s));
    const ForwardBounds bounds = forward_bounds(in, s);
    expect_rows_within(result, 0, out, bounds.out, s, "out");
    expect_within(result, out.size(), logsumexp, bounds.logsumexp, "logsumexp");
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST(Attention, BackwardIsWithinTheBoundAndTheSameOnEveryIsa) {
  Seeded random;
  int turn = 0;
  for (const Shape& s : shapes()) {
    SCOPED_TRACE(s.text());
    const Inputs in = random_inputs(s, random);
    const Place place = kPlaces[turn++ % 3];
    const std::vector<float> result = same_on_every_isa(
        [&](const KernelTable& kernels) { return run_backward(kernels, in, s, backward_call(s), place); });
    Gradients truth(s);
    reference::attention_backward(
        truth.query.data(), truth.key.data(), truth.value.data(), at_distance_zero(truth.bias.data(), s),
        widened(in.d_out).data(), widened(in.logsumexp).data(), widened(in.query).data(), widened(in.key).data(),
        widened(in.value).data(), at_distance_zero(widened(in.bias).data(), s), backward_call(s));
    const Gradients bounds = backward_bounds(in, s);
    std::size_t begin = 0;
    expect_rows_within(result, begin, truth.query, bounds.query, s, "d_query");
    expect_rows_within(result, begin += truth.query.size(), truth.key, bounds.key, s, "d_key");
    expect_rows_within(result, begin += truth.key.size(), truth.value, bounds.value, s, "d_value");
    expect_within(result, begin += truth.value.size(), truth.bias, bounds.bias, "d_bias");
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST(Attention, HugeScoresNeitherOverflowNorLoseTheLargest) {
  const std::int64_t keys = 20;
  for (const Isa isa : isas()) {
    Floats out(1), logsumexp(1), query(std::vector<float>{1e4f});
    std::vector<float> rows(static_cast<std::size_t>(keys), -1e4f);
    rows[7] = 1e4f;
    Seeded random;
    Floats key(rows), value(normal(random, keys));
    Floats scratch(attention_forward_scratch_floats(keys, 1));
    AttentionForward a = forward_call({1, keys, 1});
    a.out = out.data();
    a.logsumexp = logsumexp.data();
    a.query = query.data();
    a.key = key.data();
    a.value = value.data();
    a.scratch = scratch.data();
    kernels_for(isa).attention_forward(a);
    EXPECT_EQ(out[0], value[7]);
    EXPECT_EQ(logsumexp[0], 1e8f);
  }
}

// Differentiating the forward reference by each input, along a random direction of outputs.
void expect_derivative(const Shape& s) {
  Seeded random;
  Inputs in = random_inputs(s, random);
  const std::size_t rows = static_cast<std::size_t>(s.query_rows);
  std::vector<double> out = zeros(s.extent(s.query_rows)), logsumexp = zeros(s.query_rows);
  const std::vector<double> query = widened(in.query), key = widened(in.key), value = widened(in.value);
  const std::vector<double> bias = widened(in.bias), d_out = widened(in.d_out);
  const double* const middle = at_distance_zero(bias.data(), s);
  reference::attention_forward(out.data(), logsumexp.data(), query.data(), key.data(), value.data(), middle,
                               forward_call(s));
  Gradients g(s);
  reference::attention_backward(g.query.data(), g.key.data(), g.value.data(), at_distance_zero(g.bias.data(), s),
                                d_out.data(), logsumexp.data(), query.data(), key.data(), value.data(), middle,
                                backward_call(s));

  std::vector<Dual> inputs[4] = {constants(query), constants(key), constants(value), constants(bias)};
  const std::vector<double>* const gradients[4] = {&g.query, &g.key, &g.value, &g.bias};
  for (int which = 0; which < 4; ++which) {
    for (std::size_t i = 0; i < inputs[which].size(); ++i) {
      if (which < 3 && static_cast<std::int64_t>(i) % s.stride() >= s.head_size) continue;
      inputs[which][i].derivative = 1.0;
      std::vector<Dual> y(out.size());
      std::vector<Dual> lse(rows);
      reference::attention_forward(y.data(), lse.data(), inputs[0].data(), inputs[1].data(), inputs[2].data(),
                                   at_distance_zero(inputs[3].data(), s), forward_call(s));
      double derivative = 0.0;
      for (std::size_t j = 0; j < y.size(); ++j) derivative += d_out[j] * y[j].derivative;
      EXPECT_NEAR((*gradients[which])[i], derivative, 1e-12) << "input " << which << " element " << i;
      inputs[which][i].derivative = 0.0;
    }
  }
}

TEST(AttentionReference, BackwardIsTheDerivativeOfForward) {
  for (const bool drops : {false, true}) {
    expect_derivative({3, 5, 4, 2, drops});
    expect_derivative({4, 6, 4, 2, drops, true});
    expect_derivative({4, 6, 4, 2, drops, true, true, 0.7f});
    expect_derivative({2, 9, 3, 0, drops, false, true});
  }
}

}  // namespace
}  // namespace bascule::test::test_attention
