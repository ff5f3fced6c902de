// SPDX-License-Identifier: Apache-2.0
// Kernels whose operands may be bf16: on every instruction set they give the bits of the float32 kernel on the widened
// operands, rounded once. Odd extents, and memory that ends at an unreadable page.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/reference/bf16.h"
#include "tests/kernels/kernel_test.h"

namespace bascule::test::test_elements {
namespace {

// The same numbers in both types. What a kernel writes is compared with rounded().
struct Both {
  GuardedBuffer<std::uint16_t> bf16;
  GuardedBuffer<float> float32;

  Both(std::int64_t count, Seeded& random)
      : bf16(static_cast<std::size_t>(count)), float32(static_cast<std::size_t>(count)) {
    random.fill_normal(float32.data(), float32.size());
    reference::to_bf16({bf16.data(), float32.data(), count});
    reference::from_bf16({float32.data(), bf16.data(), count});
  }
  std::vector<std::uint16_t> rounded() const {
    std::vector<std::uint16_t> out(float32.size());
    reference::to_bf16({out.data(), float32.data(), static_cast<std::int64_t>(float32.size())});
    return out;
  }
  // In one type or the other.
  ConstElements read(bool is_bf16) const {
    return is_bf16 ? ConstElements(bf16.data()) : ConstElements(float32.data());
  }
  Elements write(bool is_bf16) { return is_bf16 ? Elements(bf16.data()) : Elements(float32.data()); }
  void expect_rounded(const char* what, Isa isa) const {
    const std::vector<std::uint16_t> truth = rounded();
    for (std::size_t i = 0; i < truth.size(); ++i)
      ASSERT_EQ(bf16[i], truth[i]) << what << ", element " << i << ", " << isa_name(isa);
  }
};

constexpr std::int64_t kOddCounts[] = {1, 7, 15, 16, 17, 33, 100};

TEST(Elements, ActivationsOfBf16) {
  Seeded random;
  for (const Isa isa : isas()) {
    const KernelTable& kernels = kernels_for(isa);
    for (const std::int64_t cols : kOddCounts) {
      for (int kind = 0; kind <= static_cast<int>(Activation::kLinear); ++kind) {
        const Activation function = static_cast<Activation>(kind);
        const std::int64_t rows = 3;
        Both x(rows * cols, random), d_y(rows * cols, random), y(rows * cols, random), d_x(rows * cols, random);
        for (const bool is_bf16 : {false, true})
          kernels.activation_forward({y.write(is_bf16), x.read(is_bf16), rows * cols, function});
        y.expect_rounded("y", isa);
        for (const bool is_bf16 : {false, true}) {
          kernels.activation_backward(
              {d_x.write(is_bf16), nullptr, d_y.read(is_bf16), x.read(is_bf16), rows, cols, function, false});
        }
        d_x.expect_rounded("d_x", isa);
      }
    }
  }
}

TEST(Elements, AnActivationOfFloat32IntoBf16) {
  Seeded random;
  for (const Isa isa : isas()) {
    for (const std::int64_t count : kOddCounts) {
      Both x(count, random), y(count, random);
      for (const bool is_bf16 : {false, true})
        kernels_for(isa).activation_forward({y.write(is_bf16), x.read(false), count, Activation::kGelu});
      y.expect_rounded("y", isa);
    }
  }
}

TEST(Elements, LayerNormIntoBf16) {
  Seeded random;
  for (const Isa isa : isas()) {
    for (const std::int64_t cols : kOddCounts) {
      const std::int64_t rows = 5;
      Both x(rows * cols, random), y(rows * cols, random), gamma(cols, random), beta(cols, random), mean(rows, random),
          rstd(rows, random);
      for (const bool is_bf16 : {false, true}) {
        RowNormForward a{};
        a.y = y.write(is_bf16);
        a.mean = mean.float32.data();
        a.rstd = rstd.float32.data();
        a.x = x.float32.data();
        a.gamma = gamma.float32.data();
        a.beta = beta.float32.data();
        a.rows = rows;
        a.cols = cols;
        a.epsilon = 1e-5f;
        kernels_for(isa).layer_norm_forward(a);
      }
      y.expect_rounded("y", isa);
    }
  }
}

TEST(Elements, GroupNormIntoBf16) {
  Seeded random;
  for (const Isa isa : isas()) {
    for (const std::int64_t channels : kOddCounts) {
      const std::int64_t rows = 5;
      Both x(rows * channels, random), y(rows * channels, random), gamma(channels, random), beta(channels, random),
          statistics(2 * channels, random);
      for (const bool silu : {false, true}) {
        for (const bool is_bf16 : {false, true})
          kernels_for(isa).group_norm_forward({y.write(is_bf16), x.float32.data(), statistics.float32.data(),
                                               gamma.float32.data(), beta.float32.data(), rows, channels, silu});
        y.expect_rounded("y", isa);
      }
    }
  }
}

TEST(Elements, ColumnSumsOfBf16) {
  Seeded random;
  for (const Isa isa : isas()) {
    for (const std::int64_t cols : kOddCounts) {
      for (const std::int64_t rows : {1, 4, 9}) {
        const std::int64_t stride = cols + 3;
        const Both x((rows - 1) * stride + cols, random);
        GuardedBuffer<float> sums(static_cast<std::size_t>(cols)), truth(static_cast<std::size_t>(cols));
        kernels_for(isa).column_sums({truth.data(), x.read(false), rows, cols, stride});
        kernels_for(isa).column_sums({sums.data(), x.read(true), rows, cols, stride});
        EXPECT_EQ(std::memcmp(sums.data(), truth.data(), truth.size() * sizeof(float)), 0) << isa_name(isa);
      }
    }
  }
}

TEST(Elements, PatchesInBf16) {
  Seeded random;
  for (const Isa isa : isas()) {
    for (const std::int64_t patch : {1, 5, 16, 19}) {
      const std::int64_t channels = 3, height = 2 * patch + 1, width = 3 * patch + 2;
      const Both pixels(channels * height * width, random);
      Both out((height / patch) * (width / patch) * channels * patch * patch, random);
      for (const bool is_bf16 : {false, true})
        kernels_for(isa).extract_patches({out.write(is_bf16), pixels.float32.data(), channels, height, width, patch});
      out.expect_rounded("patches", isa);
    }
  }
}

struct Heads {
  std::int64_t query_rows, key_rows, head_size;
};

TEST(Elements, AttentionOfBf16) {
  Seeded random;
  for (const Isa isa : isas()) {
    const KernelTable& kernels = kernels_for(isa);
    for (const Heads& h : {Heads{1, 1, 1}, Heads{1, 17, 8}, Heads{50, 33, 24}, Heads{97, 100, 64}, Heads{3, 7, 80},
                           Heads{530, 1030, 16}}) {
      const std::int64_t stride = h.head_size + 5;
      const auto rows_of = [&](std::int64_t rows) { return Both((rows - 1) * stride + h.head_size, random); };
      const Both query = rows_of(h.query_rows), key = rows_of(h.key_rows), value = rows_of(h.key_rows),
                 d_out = rows_of(h.query_rows);
      Both out = rows_of(h.query_rows), d_query = rows_of(h.query_rows), d_key = rows_of(h.key_rows),
           d_value = rows_of(h.key_rows);
      GuardedBuffer<float> logsumexp(static_cast<std::size_t>(h.query_rows));
      const auto scratch_of = [&](auto floats) {
        return GuardedBuffer<float>(static_cast<std::size_t>(floats(h.key_rows, h.head_size)));
      };
      GuardedBuffer<float> scratch = scratch_of(attention_forward_scratch_floats),
                           backward_scratch = scratch_of(attention_backward_scratch_floats);
      // The last time causal and with a bias, whose gradient is float32.
      const std::vector<float> bias = normal(random, h.query_rows + h.key_rows);
      std::vector<float> d_bias[2];
      for (const double dropped : {0.0, 0.3, 0.4}) {
        const bool limited = dropped == 0.4;
        const float* const at_zero = limited ? bias.data() + h.query_rows : nullptr;
        DropoutStream dropout{};
        if (dropped > 0.0) {
          dropout.threshold = static_cast<std::uint32_t>(dropped * 4294967296.0);
          dropout.scale = static_cast<float>(1.0 / (1.0 - dropped));
        }
        for (const bool is_bf16 : {false, true}) {
          AttentionForward a{};
          a.out = out.write(is_bf16);
          a.logsumexp = logsumexp.data();
          a.query = query.read(is_bf16);
          a.key = key.read(is_bf16);
          a.value = value.read(is_bf16);
          a.out_stride = a.query_stride = a.key_stride = a.value_stride = stride;
          a.query_rows = h.query_rows;
          a.key_rows = h.key_rows;
          a.head_size = h.head_size;
          a.scale = 0.125f;
          a.dropout = dropout;
          a.sample = 3;
          a.bias = at_zero;
          a.causal = limited;
          a.scratch = scratch.data();
          std::memset(scratch.data(), 0xff, scratch.size() * sizeof(float));
          kernels.attention_forward(a);
        }
        out.expect_rounded("out", isa);
        for (const bool is_bf16 : {false, true}) {
          // That of bf16 takes the largest score in place of logsumexp, which may be that of unrounded operands.
          for (std::int64_t q = 0; q < h.query_rows; ++q) {
            float top = -std::numeric_limits<float>::infinity();
            for (std::int64_t k = 0; k < (limited ? std::min(h.key_rows, q + 1) : h.key_rows); ++k) {
              float score = 0.0f;
              for (std::int64_t c = 0; c < h.head_size; ++c) {
                score = std::fma(query.float32[static_cast<std::size_t>(q * stride + c)],
                                 0.125f * key.float32[static_cast<std::size_t>(k * stride + c)], score);
              }
              top = std::max(top, limited ? score + at_zero[k - q] : score);
            }
            logsumexp[static_cast<std::size_t>(q)] = is_bf16 ? std::nanf("") : top;
          }
          AttentionBackward a{};
          a.d_query = d_query.write(is_bf16);
          a.d_key = d_key.write(is_bf16);
          a.d_value = d_value.write(is_bf16);
          d_bias[is_bf16 ? 1 : 0].assign(bias.size(), 0.0f);
          a.d_bias = limited ? d_bias[is_bf16 ? 1 : 0].data() + h.query_rows : nullptr;
          a.d_out = d_out.read(is_bf16);
          a.logsumexp = logsumexp.data();
          a.query = query.read(is_bf16);
          a.key = key.read(is_bf16);
          a.value = value.read(is_bf16);
          a.d_query_stride = a.d_key_stride = a.d_value_stride = a.d_out_stride = stride;
          a.query_stride = a.key_stride = a.value_stride = stride;
          a.query_rows = h.query_rows;
          a.key_rows = h.key_rows;
          a.head_size = h.head_size;
          a.scale = 0.125f;
          a.dropout = dropout;
          a.sample = 3;
          a.bias = at_zero;
          a.causal = limited;
          a.scratch = backward_scratch.data();
          std::memset(backward_scratch.data(), 0xff, backward_scratch.size() * sizeof(float));
          kernels.attention_backward(a);
        }
        d_query.expect_rounded("d_query", isa);
        d_key.expect_rounded("d_key", isa);
        d_value.expect_rounded("d_value", isa);
        EXPECT_EQ(first_different_bit(d_bias[0], d_bias[1]), -1) << isa_name(isa);
      }
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_elements
