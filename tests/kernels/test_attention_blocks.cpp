// SPDX-License-Identifier: Apache-2.0
// Attention to more keys than a block: scores whose maximum moves between blocks, and what the bits of a row depend on.
// test_attention.cpp holds its error for ordinary scores.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/attention_cases.h"

namespace bascule::test::test_attention_blocks {
namespace {

constexpr std::int64_t kBlock = kAttentionKeyBlock, kGroup = kAttentionQueryGroup;

std::vector<float> rows_of(const std::vector<float>& x, std::int64_t first, std::int64_t count, std::int64_t width) {
  return {x.begin() + first * width, x.begin() + (first + count) * width};
}

// One query, whose scores are the keys themselves.
Inputs inputs_of(const std::vector<float>& scores, Seeded& random) {
  Inputs in;
  in.query = {1.0f};
  in.key = scores;
  in.value = normal(random, static_cast<std::int64_t>(scores.size()));
  return in;
}

struct Row {
  double out = 0.0, bound = 0.0, logsumexp = 0.0, logsumexp_bound = 0.0;
};

// Scores are exact, so p errs by the subtractions of maxima, by exp, and by the factor and the addition of each block.
Row row_of(const Inputs& in) {
  Row row;
  const double top = static_cast<double>(*std::max_element(in.key.begin(), in.key.end()));
  const auto keys = static_cast<double>(in.key.size());
  const double blocks = std::ceil(keys / static_cast<double>(kBlock));
  double sum = 0.0, of_sum = 0.0;
  for (const float x : in.key) {
    const double e = std::exp(static_cast<double>(x) - top);
    sum += e;
    if (e > 0.0) of_sum += e * (kEpsilon * (top - static_cast<double>(x)) + (2.0 + 4.0 * blocks) * kEpsilon);
  }
  of_sum = of_sum / sum + (static_cast<double>(kBlock) / 16.0 + 5.0) * kEpsilon;
  for (std::size_t k = 0; k < in.key.size(); ++k) {
    const double below = top - static_cast<double>(in.key[k]), p = std::exp(-below) / sum;
    const double v = static_cast<double>(in.value[k]);
    row.out += p * v;
    if (p > 0.0) {
      row.bound += kSecondOrder * p * std::abs(v) *
                   (kEpsilon * below + of_sum + (static_cast<double>(kBlock) + 4.0 + 4.0 * blocks) * kEpsilon);
    }
    row.bound += 0x1p-149 * std::abs(v);  // exp of subnormal size
  }
  row.logsumexp = top + std::log(sum);
  row.logsumexp_bound =
      kSecondOrder * (of_sum + 2.0 * kEpsilon * std::abs(std::log(sum)) + kEpsilon * std::abs(row.logsumexp));
  return row;
}

// Lanes run over the keys of one query, and over sixteen queries, which are all the same here.
void expect_exact(const std::string& what, const std::vector<float>& scores) {
  SCOPED_TRACE(what);
  Seeded random;
  Inputs in = inputs_of(scores, random);
  const Row row = row_of(in);
  for (const std::int64_t queries : {1, 16}) {
    in.query.assign(static_cast<std::size_t>(queries), 1.0f);
    const Shape s{queries, static_cast<std::int64_t>(scores.size()), 1};
    const std::vector<float> result = same_on_every_isa([&](const KernelTable& kernels) {
      AttentionForward a = forward_call(s);
      a.scale = 1.0f;
      return run_forward(kernels, in, s, a);
    });
    for (std::size_t q = 0; q < in.query.size(); ++q) {
      const float out = result[q], logsumexp = result[in.query.size() + q];
      EXPECT_LE(std::abs(static_cast<double>(out) - row.out), row.bound) << out << ", truth " << row.out;
      EXPECT_LE(std::abs(static_cast<double>(logsumexp) - row.logsumexp), row.logsumexp_bound)
          << logsumexp << ", truth " << row.logsumexp;
    }
  }
}

TEST(AttentionBlocks, TheMaximumMayMoveFromBlockToBlock) {
  for (const std::int64_t keys : {kBlock + 1, 2 * kBlock, 2 * kBlock + 1, 4 * kBlock + 5}) {
    for (const float range : {1.0f, 30.0f, 1e4f, 1e30f}) {
      std::vector<float> rising(static_cast<std::size_t>(keys)), waves(rising);
      for (std::int64_t k = 0; k < keys; ++k) {
        const auto i = static_cast<std::size_t>(k);
        rising[i] = range * (2.0f * static_cast<float>(k) / static_cast<float>(keys - 1) - 1.0f);
        waves[i] = (k / kBlock % 2 == 0 ? -range : range) + static_cast<float>(k % 7);
      }
      const std::vector<float> falling(rising.rbegin(), rising.rend());
      const std::string text = std::to_string(keys) + " keys, scores up to " + std::to_string(range);
      expect_exact(text + ", rising", rising);
      expect_exact(text + ", falling", falling);
      expect_exact(text + ", in waves", waves);
      for (float& x : waves) x = -x;
      expect_exact(text + ", in opposite waves", waves);
    }
  }
}

// Scores that stand for "not this key".
TEST(AttentionBlocks, WholeBlocksMayHaveNoWeight) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float none : {-1e30f, -infinity}) {
    for (const std::int64_t with : {0, 1, 2}) {  // the block that has a weight
      std::vector<float> scores(static_cast<std::size_t>(2 * kBlock + 9), none);
      for (std::int64_t k = with * kBlock; k < with * kBlock + 9; k += 2)
        scores[static_cast<std::size_t>(k)] = static_cast<float>(k % 5);
      expect_exact("block " + std::to_string(with), scores);
    }
  }
  expect_exact("all alike", std::vector<float>(static_cast<std::size_t>(2 * kBlock + 1), -1e30f));
}

// In and around groups of query rows, and the sixteen or fewer whose keys are multiplied where they lie.
TEST(AttentionBlocks, ARowAloneHasTheBitsThatItHasAmongOthers) {
  for (const float scale : {0.25f, 1.0f}) {
    for (const bool biased : {false, true}) {
      Seeded random;
      const Shape all{2 * kGroup + 5, 2 * kBlock + 33, 16, 0, !biased, biased};
      const Inputs in = random_inputs(all, random);
      const KernelTable& kernels = kernels_for(isas().back());
      AttentionForward whole = forward_call(all);
      whole.scale = scale;
      const std::vector<float> together = run_forward(kernels, in, all, whole);
      for (const std::int64_t q : {std::int64_t{0}, std::int64_t{47}, std::int64_t{48}, kGroup - 1, kGroup, kGroup + 48,
                                   2 * kGroup, 2 * kGroup + 4}) {
        for (const std::int64_t rows : {1, 17}) {
          AttentionForward a = whole;
          a.query_rows = std::min(rows, all.query_rows - q);
          a.query_position += q;
          Inputs own = in;
          own.query = rows_of(in.query, q, a.query_rows, 16);
          const std::vector<float> alone = run_forward(kernels, own, all, a);
          EXPECT_EQ(first_different_bit(rows_of(alone, 0, a.query_rows, 16), rows_of(together, q, a.query_rows, 16)),
                    -1)
              << q << ", scale " << scale;
          EXPECT_EQ(alone[static_cast<std::size_t>(a.query_rows * 16)],
                    together[static_cast<std::size_t>(all.query_rows * 16 + q)])
              << "logsumexp " << q;
        }
      }
    }
  }
}

// Rows that see a block less, all of one, one key more, and of several.
TEST(AttentionBlocks, ACausalRowHasTheBitsOfItsPastAlone) {
  Seeded random;
  for (const bool drops : {false, true}) {
    const Shape all{kBlock + 120, kBlock + 120 + kQueryPosition, 16, 0, drops, true, true};
    const Inputs in = random_inputs(all, random);
    for (const Isa isa : isas()) {
      const KernelTable& kernels = kernels_for(isa);
      for (const float scale : {all.scale(), 1.0f}) {
        AttentionForward whole = forward_call(all);
        whole.scale = scale;
        const std::vector<float> together = run_forward(kernels, in, all, whole);
        for (const std::int64_t keys : {kBlock - 30, kBlock - 1, kBlock, kBlock + 1, kBlock + 40, all.key_rows}) {
          const std::int64_t q = keys - kQueryPosition - 1;
          Inputs own = in;
          own.query = rows_of(in.query, q, 1, 16);
          own.key.resize(static_cast<std::size_t>(keys * 16));
          own.value.resize(static_cast<std::size_t>(keys * 16));
          AttentionForward a = whole;
          a.query_rows = 1;
          a.query_position += q;
          a.key_rows = keys;
          for (const bool causal : {true, false}) {
            a.causal = causal;
            const std::vector<float> alone = run_forward(kernels, own, all, a);
            EXPECT_EQ(first_different_bit(rows_of(alone, 0, 1, 16), rows_of(together, q, 1, 16)), -1)
                << isa_name(isa) << ", " << keys << " keys";
            EXPECT_EQ(alone.back(), together[static_cast<std::size_t>(all.query_rows * 16 + q)]) << keys;
          }
        }
      }
    }
  }
}

TEST(AttentionBlocks, KeysThatNoQuerySeesAreNotRead) {
  Seeded random;
  const Shape s{20, 2 * kBlock + 90, 16, 0, false, false, true};
  Inputs in = random_inputs({20, 2 * kBlock + 90, 16}, random);
  for (const std::int64_t seen : {kBlock, kBlock + 5}) {
    Inputs poisoned = in;
    std::fill(poisoned.key.begin() + seen * 16, poisoned.key.end(), std::numeric_limits<float>::quiet_NaN());
    std::fill(poisoned.value.begin() + seen * 16, poisoned.value.end(), std::numeric_limits<float>::quiet_NaN());
    AttentionForward a = forward_call(s);
    a.query_position = seen - s.query_rows;
    for (const Isa isa : isas()) {
      const KernelTable& kernels = kernels_for(isa);
      EXPECT_EQ(first_different_bit(run_forward(kernels, poisoned, s, a), run_forward(kernels, in, s, a)), -1)
          << isa_name(isa) << ", " << seen;
    }
  }
}

TEST(AttentionBlocks, IndexedKeysHaveTheBitsOfTheSameKeysInOrder) {
  Seeded random;
  for (const std::int64_t queries : {5, 48}) {
    const Shape s{queries, 2 * kBlock + 3, 24, 0, true, true, true};
    const Inputs in = random_inputs(s, random);
    // Key k lies at row 11 k modulo a number that 11 does not divide.
    const std::int64_t rows = s.key_rows + (s.key_rows % 11 == 0 ? 1 : 0);
    std::vector<std::int32_t> index;
    Inputs spread = in;
    spread.key = normal(random, rows * s.stride());
    spread.value = normal(random, rows * s.stride());
    for (std::int64_t k = 0; k < s.key_rows; ++k) {
      const std::int64_t row = 11 * k % rows;
      index.push_back(static_cast<std::int32_t>(row));
      std::copy_n(in.key.begin() + k * s.stride(), s.head_size, spread.key.begin() + row * s.stride());
      std::copy_n(in.value.begin() + k * s.stride(), s.head_size, spread.value.begin() + row * s.stride());
    }
    for (const Isa isa : isas()) {
      AttentionForward a = forward_call(s);
      a.query_position = s.key_rows - s.query_rows;
      a.bias = nullptr;
      Shape plain = s;
      plain.biased = false;
      const std::vector<float> in_order = run_forward(kernels_for(isa), in, plain, a);
      a.key_index = index.data();
      EXPECT_EQ(first_different_bit(run_forward(kernels_for(isa), spread, plain, a), in_order), -1) << isa_name(isa);
    }
  }
}

TEST(AttentionBlocks, ForwardScratchDoesNotGrowWithTheKeys) {
  for (const std::int64_t head : {1, 40, 64, 160, 512}) {
    const std::int64_t floats = attention_forward_scratch_floats(kBlock + 1, head);
    EXPECT_EQ(attention_forward_scratch_floats(1 << 20, head), floats) << head;
    EXPECT_LE(floats, (2 * kBlock + kGroup + 200) * (head + 15) + 48 * (kBlock + 16)) << head;
    for (const std::int64_t keys : {std::int64_t{77}, kBlock})
      EXPECT_LT(attention_forward_scratch_floats(keys, head), attention_backward_scratch_floats(keys, head));
  }
}

}  // namespace
}  // namespace bascule::test::test_attention_blocks
