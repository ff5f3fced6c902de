// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/dropout.h"
#include "kernels/reference/attention.h"
#include "tests/kernels/kernel_test.h"
#include "tests/support/dual.h"

namespace bascule::test {
namespace {

// Extents of one call; slack is what every stride exceeds the head size by.
struct Shape {
  std::int64_t query_rows, key_rows, head_size;
  std::int64_t slack = 0;
  bool drops = false;

  std::int64_t stride() const { return head_size + slack; }
  std::int64_t extent(std::int64_t rows) const { return (rows - 1) * stride() + head_size; }
  std::string text() const {
    return std::to_string(query_rows) + " queries, " + std::to_string(key_rows) + " keys of " +
           std::to_string(head_size) + ", slack " + std::to_string(slack) + (drops ? ", dropout" : "");
  }
  DropoutStream dropout() const {
    if (!drops) return {};
    return {0x40000000u, 4.0f / 3.0f, {17u, 23u}, 5u};  // a quarter is dropped
  }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_size)); }
};

// Every ragged size up to 40 met by some head size, with and without strides and dropout, and the sizes of models.
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
    list.push_back({325, 325, 64, 704, drops});
    list.push_back({1, 442, 64, 0, drops});
    list.push_back({130, 49, 64, 0, drops});
    list.push_back({49, 130, 80, 0, drops});
    list.push_back({17, 12, 32, 96, drops});
  }
  return list;
}

struct Inputs {
  std::vector<float> query, key, value, d_out, logsumexp;
};

AttentionForward forward_call(const Shape& s) {
  AttentionForward a{};
  a.out_stride = a.query_stride = a.key_stride = a.value_stride = s.stride();
  a.query_rows = s.query_rows;
  a.key_rows = s.key_rows;
  a.head_size = s.head_size;
  a.scale = s.scale();
  a.dropout = s.dropout();
  a.sample = 9;
  a.query_position = 3;
  a.head = 2;
  return a;
}

AttentionBackward backward_call(const Shape& s) {
  AttentionBackward a{};
  a.d_query_stride = a.d_key_stride = a.d_value_stride = a.d_out_stride = s.stride();
  a.query_stride = a.key_stride = a.value_stride = s.stride();
  a.query_rows = s.query_rows;
  a.key_rows = s.key_rows;
  a.head_size = s.head_size;
  a.scale = s.scale();
  a.dropout = s.dropout();
  a.sample = 9;
  a.query_position = 3;
  a.head = 2;
  return a;
}

// Random inputs; what backward takes from forward is the reference's, rounded to float.
Inputs random_inputs(const Shape& s, Seeded& random) {
  Inputs in;
  in.query = normal(random, s.extent(s.query_rows), 1.5);
  in.key = normal(random, s.extent(s.key_rows), 1.5);
  in.value = normal(random, s.extent(s.key_rows));
  in.d_out = normal(random, s.extent(s.query_rows));
  std::vector<double> out = zeros(s.extent(s.query_rows));
  std::vector<double> logsumexp = zeros(s.query_rows);
  reference::attention_forward(out.data(), logsumexp.data(), widened(in.query).data(), widened(in.key).data(),
                               widened(in.value).data(), forward_call(s));
  in.logsumexp.assign(logsumexp.begin(), logsumexp.end());
  return in;
}

double magnitude(const std::vector<float>& a, std::int64_t row_a, const std::vector<float>& b, std::int64_t row_b,
                 const Shape& s) {
  double sum = 0.0;
  for (std::int64_t c = 0; c < s.head_size; ++c) {
    sum += std::abs(static_cast<double>(a[static_cast<std::size_t>(row_a * s.stride() + c)]) *
                    static_cast<double>(b[static_cast<std::size_t>(row_b * s.stride() + c)]));
  }
  return sum;
}

// The bound of one score's rounding: a chain of D products of q and the rounded scale k.
double score_bound(const Inputs& in, std::int64_t q, std::int64_t k, const Shape& s) {
  return static_cast<double>(s.head_size + 1) * kEpsilon * static_cast<double>(s.scale()) *
         magnitude(in.query, q, in.key, k, s);
}

double score(const Inputs& in, std::int64_t q, std::int64_t k, const Shape& s) {
  double sum = 0.0;
  for (std::int64_t c = 0; c < s.head_size; ++c) {
    sum += static_cast<double>(in.query[static_cast<std::size_t>(q * s.stride() + c)]) *
           static_cast<double>(in.key[static_cast<std::size_t>(k * s.stride() + c)]);
  }
  return static_cast<double>(s.scale()) * sum;
}

double dropped(double x, const Shape& s, std::int64_t q, std::int64_t k) {
  return reference::attention_dropout(x, forward_call(s), q, k);
}

constexpr double kSecondOrder = 1.01;  // products of two errors: each is below a hundredth of the other

struct ForwardBounds {
  std::vector<double> out, logsumexp;
};

// p[k] = e[k] / sum. e[k] errs relatively by r[k]: its score's error, the rounding of the subtracted maximum, 1 ulp of
// exp. The sum errs by the p-weighted mean of r and its own additions. out is then a chain of K products, and two more
// roundings for the factor.
ForwardBounds forward_bounds(const Inputs& in, const Shape& s) {
  ForwardBounds bounds{zeros(s.extent(s.query_rows)), zeros(s.query_rows)};
  const auto keys = static_cast<double>(s.key_rows);
  for (std::int64_t q = 0; q < s.query_rows; ++q) {
    std::vector<double> p;
    std::vector<double> r;
    double top = -std::numeric_limits<double>::infinity();
    for (std::int64_t k = 0; k < s.key_rows; ++k) top = std::max(top, score(in, q, k, s));
    double sum = 0.0;
    for (std::int64_t k = 0; k < s.key_rows; ++k) {
      const double x = score(in, q, k, s);
      p.push_back(std::exp(x - top));
      sum += p.back();
      r.push_back(score_bound(in, q, k, s) + kEpsilon * (top - x) + 2.0 * kEpsilon);
    }
    double mean = 0.0;
    for (std::size_t k = 0; k < p.size(); ++k) mean += p[k] / sum * r[k];
    const double of_sum = mean + (keys / 16.0 + 5.0) * kEpsilon;
    const double log_sum = std::log(sum);
    bounds.logsumexp[static_cast<std::size_t>(q)] =
        kSecondOrder *
        (of_sum + score_bound(in, q, 0, s) + 2.0 * kEpsilon * log_sum + kEpsilon * std::abs(top + log_sum));
    for (std::int64_t k = 0; k < s.key_rows; ++k) {
      const double probability = dropped(p[static_cast<std::size_t>(k)] / sum, s, q, k);
      for (std::int64_t c = 0; c < s.head_size; ++c) {
        const double v = std::abs(static_cast<double>(in.value[static_cast<std::size_t>(k * s.stride() + c)]));
        bounds.out[static_cast<std::size_t>(q * s.stride() + c)] +=
            kSecondOrder * probability * v * (r[static_cast<std::size_t>(k)] + of_sum + (keys + 2.0) * kEpsilon);
      }
    }
  }
  return bounds;
}

struct Gradients {
  std::vector<double> query, key, value;
};

// The bounds of rounding in one query row's probabilities and in their gradients. logsumexp is an input; p errs
// relatively by r: score, subtraction, exp, then the division by a sum that errs by the p-weighted mean of that and its
// own additions. d_p errs by a chain of D and the factor of dropout, delta by what p and d_p err by and a sum of K.
struct RowBounds {
  std::vector<double> p, r, d_p, d_p_bound;
  double delta = 0.0, delta_bound = 0.0;
};

RowBounds row_bounds(const Inputs& in, std::int64_t q, const Shape& s) {
  RowBounds row;
  const auto width = static_cast<double>(s.head_size), keys = static_cast<double>(s.key_rows);
  const double lse = static_cast<double>(in.logsumexp[static_cast<std::size_t>(q)]);
  double mean_r = 0.0;
  for (std::int64_t k = 0; k < s.key_rows; ++k) {
    const double x = score(in, q, k, s);
    row.p.push_back(std::exp(x - lse));
    row.r.push_back(score_bound(in, q, k, s) + kEpsilon * std::abs(x - lse) + 2.0 * kEpsilon);
    mean_r += row.p.back() * row.r.back();
    double d_p = 0.0;
    for (std::int64_t c = 0; c < s.head_size; ++c) {
      d_p += static_cast<double>(in.d_out[static_cast<std::size_t>(q * s.stride() + c)]) *
             static_cast<double>(in.value[static_cast<std::size_t>(k * s.stride() + c)]);
    }
    row.d_p.push_back(dropped(d_p, s, q, k));
    row.d_p_bound.push_back((width + 1.0) * kEpsilon * dropped(magnitude(in.d_out, q, in.value, k, s), s, q, k));
  }
  for (std::size_t k = 0; k < row.p.size(); ++k) {
    row.r[k] += mean_r + (keys + 2.0) * kEpsilon;
    row.delta += row.p[k] * row.d_p[k];
    row.delta_bound += row.p[k] * (row.d_p_bound[k] + std::abs(row.d_p[k]) * (row.r[k] + (keys + 2.0) * kEpsilon));
  }
  return row;
}

// ds = p (d_p - delta) collects them; then chains over keys or queries, and the factor scale.
Gradients backward_bounds(const Inputs& in, const Shape& s) {
  Gradients bounds{zeros(s.extent(s.query_rows)), zeros(s.extent(s.key_rows)), zeros(s.extent(s.key_rows))};
  const auto at = [&s](std::int64_t row, std::int64_t c) { return static_cast<std::size_t>(row * s.stride() + c); };
  const auto size = [](float x) { return std::abs(static_cast<double>(x)); };
  for (std::int64_t q = 0; q < s.query_rows; ++q) {
    const RowBounds row = row_bounds(in, q, s);
    for (std::int64_t k = 0; k < s.key_rows; ++k) {
      const auto i = static_cast<std::size_t>(k);
      const double p = row.p[i], r = row.r[i];
      const double d_s = p * std::abs(row.d_p[i] - row.delta);
      const double d_s_bound = p * (row.d_p_bound[i] + row.delta_bound) + d_s * (r + 2.0 * kEpsilon);
      const double scale = kSecondOrder * static_cast<double>(s.scale());
      const double over_keys = scale * (d_s_bound + static_cast<double>(s.key_rows + 1) * kEpsilon * d_s);
      const double over_queries = scale * (d_s_bound + static_cast<double>(s.query_rows + 1) * kEpsilon * d_s);
      const double value_bound =
          kSecondOrder * dropped(p, s, q, k) * (r + static_cast<double>(s.query_rows + 1) * kEpsilon);
      for (std::int64_t c = 0; c < s.head_size; ++c) {
        bounds.query[at(q, c)] += over_keys * size(in.key[at(k, c)]);
        bounds.key[at(k, c)] += over_queries * size(in.query[at(q, c)]);
        bounds.value[at(k, c)] += value_bound * size(in.d_out[at(q, c)]);
      }
    }
  }
  return bounds;
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
    const std::vector<float> result = same_on_every_isa([&](const KernelTable& kernels) {
      Floats out(s.extent(s.query_rows), place), logsumexp(s.query_rows, place);
      Floats query(in.query, place), key(in.key, place), value(in.value, place);
      Floats scratch(attention_scratch_floats(s.key_rows, s.head_size));
      AttentionForward a = forward_call(s);
      a.out = out.data();
      a.logsumexp = logsumexp.data();
      a.query = query.data();
      a.key = key.data();
      a.value = value.data();
      a.scratch = scratch.data();
      kernels.attention_forward(a);
      return joined({out.values(), logsumexp.values()});
    });
    std::vector<double> out = zeros(s.extent(s.query_rows));
    std::vector<double> logsumexp = zeros(s.query_rows);
    reference::attention_forward(out.data(), logsumexp.data(), widened(in.query).data(), widened(in.key).data(),
                                 widened(in.value).data(), forward_call(s));
    const ForwardBounds bounds = forward_bounds(in, s);
    expect_rows_within(result, 0, out, bounds.out, s, "out");
    expect_within(result, out.size(), logsumexp, bounds.logsumexp, "logsumexp");
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

std::vector<float> run_backward(const KernelTable& kernels, const Inputs& in, const Shape& s, Place place) {
  Floats d_query(s.extent(s.query_rows), place), d_key(s.extent(s.key_rows), place),
      d_value(s.extent(s.key_rows), place);
  Floats d_out(in.d_out, place), logsumexp(in.logsumexp, place);
  Floats query(in.query, place), key(in.key, place), value(in.value, place);
  Floats scratch(attention_scratch_floats(s.key_rows, s.head_size));
  AttentionBackward a = backward_call(s);
  a.d_query = d_query.data();
  a.d_key = d_key.data();
  a.d_value = d_value.data();
  a.d_out = d_out.data();
  a.logsumexp = logsumexp.data();
  a.query = query.data();
  a.key = key.data();
  a.value = value.data();
  a.scratch = scratch.data();
  kernels.attention_backward(a);
  return joined({d_query.values(), d_key.values(), d_value.values()});
}

TEST(Attention, BackwardIsWithinTheBoundAndTheSameOnEveryIsa) {
  Seeded random;
  int turn = 0;
  for (const Shape& s : shapes()) {
    SCOPED_TRACE(s.text());
    const Inputs in = random_inputs(s, random);
    const Place place = kPlaces[turn++ % 3];
    const std::vector<float> result =
        same_on_every_isa([&](const KernelTable& kernels) { return run_backward(kernels, in, s, place); });
    Gradients truth{zeros(s.extent(s.query_rows)), zeros(s.extent(s.key_rows)), zeros(s.extent(s.key_rows))};
    reference::attention_backward(truth.query.data(), truth.key.data(), truth.value.data(), widened(in.d_out).data(),
                                  widened(in.logsumexp).data(), widened(in.query).data(), widened(in.key).data(),
                                  widened(in.value).data(), backward_call(s));
    const Gradients bounds = backward_bounds(in, s);
    expect_rows_within(result, 0, truth.query, bounds.query, s, "d_query");
    expect_rows_within(result, truth.query.size(), truth.key, bounds.key, s, "d_key");
    expect_rows_within(result, truth.query.size() + truth.key.size(), truth.value, bounds.value, s, "d_value");
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

// The last cross-modal layer computes only the rows that the head reads.
TEST(Attention, AQueryRowAloneHasTheBitsThatItHasAmongOthers) {
  Seeded random;
  const Shape all{101, 60, 24, 0, true};
  const Inputs in = random_inputs(all, random);
  const KernelTable& kernels = kernels_for(isas().front());
  const auto run = [&](std::int64_t first, std::int64_t rows) {
    Floats out(rows * 24), logsumexp(rows), query(in.query), key(in.key), value(in.value);
    Floats scratch(attention_scratch_floats(60, 24));
    AttentionForward a = forward_call(all);
    a.query_rows = rows;
    a.query_position += first;
    a.out = out.data();
    a.logsumexp = logsumexp.data();
    a.query = query.data() + first * 24;
    a.key = key.data();
    a.value = value.data();
    a.scratch = scratch.data();
    kernels.attention_forward(a);
    return out.values();
  };
  const std::vector<float> together = run(0, 101);
  for (const std::int64_t q : {0, 1, 47, 48, 53, 100}) {
    const std::vector<float> alone = run(q, 1);
    const std::vector<float> among(together.begin() + q * 24, together.begin() + (q + 1) * 24);
    EXPECT_EQ(first_different_bit(alone, among), -1) << "row " << q;
  }
}

// BERT's last layer computes the rows that its heads read: any of a sample's.
TEST(Attention, PickedQueryRowsHaveTheBitsThatTheyHaveAmongAllWhereTheirKeysSayWhichTheyAre) {
  Seeded random;
  const Shape all{101, 60, 24, 0, true};
  const Inputs in = random_inputs(all, random);
  const std::vector<std::int64_t> picks = {0, 1, 47, 48, 53, 100};
  for (const Isa isa : isas()) {
    const auto run = [&](const std::vector<std::int64_t>& rows, bool has_keys) {
      const std::int64_t count = static_cast<std::int64_t>(rows.size());
      Floats out(count * 24), logsumexp(count), query(count * 24), key(in.key), value(in.value);
      Floats scratch(attention_scratch_floats(60, 24));
      std::vector<std::uint64_t> keys;
      for (std::int64_t r = 0; r < count; ++r) {
        const std::int64_t row = rows[static_cast<std::size_t>(r)];
        std::copy_n(in.query.data() + row * 24, 24, query.data() + r * 24);
        keys.push_back(dropout_row_key(9, static_cast<std::uint64_t>(3 + row)));
      }
      AttentionForward a = forward_call(all);
      a.query_rows = count;
      a.query_keys = has_keys ? keys.data() : nullptr;
      a.out = out.data();
      a.logsumexp = logsumexp.data();
      a.query = query.data();
      a.key = key.data();
      a.value = value.data();
      a.scratch = scratch.data();
      kernels_for(isa).attention_forward(a);
      return out.values();
    };
    std::vector<std::int64_t> rows(101);
    std::iota(rows.begin(), rows.end(), 0);
    const std::vector<float> together = run(rows, false), picked = run(picks, true);
    for (std::size_t i = 0; i < picks.size(); ++i) {
      const auto at = [](const std::vector<float>& x, std::int64_t row) {
        return std::vector<float>(x.begin() + row * 24, x.begin() + (row + 1) * 24);
      };
      EXPECT_EQ(first_different_bit(at(picked, static_cast<std::int64_t>(i)), at(together, picks[i])), -1) << picks[i];
    }
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
    Floats scratch(attention_scratch_floats(keys, 1));
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
TEST(AttentionReference, BackwardIsTheDerivativeOfForward) {
  for (const bool drops : {false, true}) {
    const Shape s{3, 5, 4, 2, drops};
    Seeded random;
    Inputs in = random_inputs(s, random);
    std::vector<double> out = zeros(s.extent(3));
    std::vector<double> logsumexp = zeros(3);
    const std::vector<double> query = widened(in.query), key = widened(in.key), value = widened(in.value);
    const std::vector<double> d_out = widened(in.d_out);
    reference::attention_forward(out.data(), logsumexp.data(), query.data(), key.data(), value.data(), forward_call(s));
    Gradients g{zeros(s.extent(3)), zeros(s.extent(5)), zeros(s.extent(5))};
    reference::attention_backward(g.query.data(), g.key.data(), g.value.data(), d_out.data(), logsumexp.data(),
                                  query.data(), key.data(), value.data(), backward_call(s));

    std::vector<Dual> inputs[3] = {constants(query), constants(key), constants(value)};
    const std::vector<double>* const gradients[3] = {&g.query, &g.key, &g.value};
    for (int which = 0; which < 3; ++which) {
      for (std::size_t i = 0; i < inputs[which].size(); ++i) {
        if (static_cast<std::int64_t>(i) % s.stride() >= s.head_size) continue;
        inputs[which][i].derivative = 1.0;
        std::vector<Dual> y(out.size());
        std::vector<Dual> lse(3);
        reference::attention_forward(y.data(), lse.data(), inputs[0].data(), inputs[1].data(), inputs[2].data(),
                                     forward_call(s));
        double derivative = 0.0;
        for (std::size_t j = 0; j < y.size(); ++j) derivative += d_out[j] * y[j].derivative;
        EXPECT_NEAR((*gradients[which])[i], derivative, 1e-12) << "input " << which << " element " << i;
        inputs[which][i].derivative = 0.0;
      }
    }
  }
}

}  // namespace
}  // namespace bascule::test
