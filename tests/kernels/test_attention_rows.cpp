// SPDX-License-Identifier: Apache-2.0
// What the bits of a query row depend on: the keys that it sees, and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/dropout.h"
#include "tests/kernels/attention_cases.h"

namespace bascule::test::test_attention_rows {
namespace {

// Rows of dense width.
std::vector<float> rows_of(const std::vector<float>& x, std::int64_t first, std::int64_t count, std::int64_t width) {
  return {x.begin() + first * width, x.begin() + (first + count) * width};
}

constexpr std::int64_t kPicks[] = {0, 1, 47, 48, 53, 100};

// The last cross-modal layer computes only the rows that the head reads.
TEST(AttentionRows, ARowAloneHasTheBitsThatItHasAmongOthers) {
  for (const bool biased : {false, true}) {
    Seeded random;
    const Shape all{101, 60, 24, 0, true, biased};
    const Inputs in = random_inputs(all, random);
    const KernelTable& kernels = kernels_for(isas().front());
    const std::vector<float> together = run_forward(kernels, in, all, forward_call(all));
    for (const std::int64_t q : kPicks) {
      AttentionForward a = forward_call(all);
      a.query_rows = 1;
      a.query_position += q;
      Inputs own = in;
      own.query = rows_of(in.query, q, 1, 24);
      const std::vector<float> alone = run_forward(kernels, own, all, a);
      EXPECT_EQ(first_different_bit(rows_of(alone, 0, 1, 24), rows_of(together, q, 1, 24)), -1) << "row " << q;
    }
  }
}

// BERT's last layer computes the rows that its heads read: any of a sample's.
TEST(AttentionRows, PickedRowsHaveTheBitsThatTheyHaveAmongAllWhereTheirKeysSayWhichTheyAre) {
  Seeded random;
  const Shape all{101, 60, 24, 0, true};
  const Inputs in = random_inputs(all, random);
  for (const Isa isa : isas()) {
    const std::vector<float> together = run_forward(kernels_for(isa), in, all, forward_call(all));
    std::vector<std::uint64_t> keys;
    Inputs own = in;
    own.query.clear();
    for (const std::int64_t row : kPicks) {
      const std::vector<float> query = rows_of(in.query, row, 1, 24);
      own.query.insert(own.query.end(), query.begin(), query.end());
      keys.push_back(dropout_row_key(9, static_cast<std::uint64_t>(kQueryPosition + row)));
    }
    AttentionForward a = forward_call(all);
    a.query_rows = static_cast<std::int64_t>(keys.size());
    a.query_keys = keys.data();
    const std::vector<float> picked = run_forward(kernels_for(isa), own, all, a);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      EXPECT_EQ(first_different_bit(rows_of(picked, static_cast<std::int64_t>(i), 1, 24),
                                    rows_of(together, kPicks[i], 1, 24)),
                -1)
          << kPicks[i];
    }
  }
}

// Row q alone with the keys that it sees where attention is causal.
Inputs past_of(const Inputs& in, std::int64_t q, std::int64_t head) {
  Inputs past = in;
  past.query = rows_of(in.query, q, 1, head);
  past.key = rows_of(in.key, 0, kQueryPosition + q + 1, head);
  past.value = rows_of(in.value, 0, kQueryPosition + q + 1, head);
  past.d_out = rows_of(in.d_out, q, 1, head);
  past.logsumexp = rows_of(in.logsumexp, q, 1, 1);
  return past;
}
// call: of all rows.
template <typename Call>
Call call_of_past(Call call, std::int64_t q) {
  call.query_rows = 1;
  call.query_position += q;
  call.key_rows = kQueryPosition + q + 1;
  return call;
}

// A token of a text has the same attention whether it comes alone behind its past, as when a text is generated, or
// with all that follows it.
TEST(AttentionRows, ACausalRowHasTheBitsOfItsPastAlone) {
  Seeded random;
  for (const std::int64_t head : {7, 16, 64}) {
    for (const bool drops : {false, true}) {
      const Shape all{101, 104, head, 0, drops, true, true};
      const Inputs in = random_inputs(all, random);
      for (const Isa isa : isas()) {
        const KernelTable& kernels = kernels_for(isa);
        // Few queries whose scale is 1 are multiplied with the keys where they lie.
        for (const float scale : {all.scale(), 1.0f}) {
          AttentionForward whole = forward_call(all);
          whole.scale = scale;
          const std::vector<float> together = run_forward(kernels, in, all, whole);
          for (const std::int64_t q : kPicks) {
            const Inputs own = past_of(in, q, head);
            for (const bool causal : {true, false}) {
              AttentionForward a = call_of_past(whole, q);
              a.causal = causal;
              const std::vector<float> alone = run_forward(kernels, own, all, a);
              EXPECT_EQ(first_different_bit(rows_of(alone, 0, 1, head), rows_of(together, q, 1, head)), -1) << q;
              EXPECT_EQ(alone.back(), together[static_cast<std::size_t>(101 * head + q)]) << "logsumexp " << q;
            }
          }
        }
        const std::vector<float> gradients = run_backward(kernels, in, all, backward_call(all));
        for (const std::int64_t q : kPicks) {
          const AttentionBackward b = call_of_past(backward_call(all), q);
          EXPECT_EQ(first_different_bit(rows_of(run_backward(kernels, past_of(in, q, head), all, b), 0, 1, head),
                                        rows_of(gradients, q, 1, head)),
                    -1)
              << "gradient of " << q;
        }
      }
    }
  }
}

// Those of a source that several beams share are multiplied with all of them where they lie.
TEST(AttentionRows, FewQueriesTogetherHaveTheBitsOfEachAlone) {
  Seeded random;
  for (const std::int64_t keys : {1, 3, 13, 16, 24, 37, 48}) {
    for (const std::int64_t queries : {2, 5, 7, 16}) {
      const Shape s{queries, keys, 32, 0, false, false};
      const Inputs in = random_inputs(s, random);
      for (const Isa isa : isas()) {
        AttentionForward a = forward_call(s);
        a.scale = 1.0f;
        const std::vector<float> together = run_forward(kernels_for(isa), in, s, a);
        a.query_rows = 1;
        for (std::int64_t q = 0; q < queries; ++q) {
          Inputs own = in;
          own.query = rows_of(in.query, q, 1, 32);
          const std::vector<float> alone = run_forward(kernels_for(isa), own, s, a);
          EXPECT_EQ(first_different_bit(rows_of(alone, 0, 1, 32), rows_of(together, q, 1, 32)), -1)
              << isa_name(isa) << ", " << keys << " keys, query " << q;
        }
      }
    }
  }
}

// Lanes run over keys or over queries, by the numbers of both.
TEST(AttentionRows, RowsHaveTheSameBitsWhicheverRowsTheyComeWith) {
  Seeded random;
  constexpr std::int64_t kHeads[] = {8, 20, 32, 40, 64, 80, 160};
  for (std::int64_t rows = 2; rows <= 70; ++rows) {
    const std::int64_t head = kHeads[rows % 7], keys = rows % 3 == 0 ? rows + kQueryPosition : random.integer(1, 70);
    const bool causal = rows % 3 == 0, biased = rows % 5 < 2;
    const Shape all{rows, keys, head, 0, rows % 2 == 0, biased, causal, rows % 4 == 1 ? 1.0f : 0.0f};
    const Inputs in = random_inputs(all, random);
    for (const Isa isa : isas()) {
      const std::vector<float> together = run_forward(kernels_for(isa), in, all, forward_call(all));
      const std::int64_t cut = random.integer(1, rows - 1);
      for (const auto& [first, count] : {std::pair{std::int64_t{0}, cut}, std::pair{cut, rows - cut}}) {
        AttentionForward a = forward_call(all);
        a.query_rows = count;
        a.query_position += first;
        Inputs own = in;
        own.query = rows_of(in.query, first, count, head);
        const std::vector<float> part = run_forward(kernels_for(isa), own, all, a);
        EXPECT_EQ(first_different_bit(rows_of(part, 0, count, head), rows_of(together, first, count, head)), -1)
            << isa_name(isa) << ", " << count << " of " << rows << " rows, " << keys << " keys of " << head;
      }
    }
  }
}

// 17 and 33 rows have lanes over keys, 48 over queries; some of them see keys of the first block alone.
TEST(AttentionRows, RowsHaveTheSameBitsAloneWhereKeysHaveSeveralBlocks) {
  Seeded random;
  for (const std::int64_t rows : {17, 33, 48}) {
    for (const bool causal : {false, true}) {
      const Shape all{rows, kAttentionKeyBlock + 20, 32, 0, false, false, causal};
      const Inputs in = random_inputs(all, random);
      AttentionForward call = forward_call(all);
      if (causal) call.query_position = kAttentionKeyBlock - 8;
      for (const Isa isa : isas()) {
        const std::vector<float> together = run_forward(kernels_for(isa), in, all, call);
        for (std::int64_t row = 0; row < rows; ++row) {
          AttentionForward a = call;
          a.query_rows = 1;
          a.query_position += row;
          Inputs own = in;
          own.query = rows_of(in.query, row, 1, all.head_size);
          EXPECT_EQ(first_different_bit(rows_of(run_forward(kernels_for(isa), own, all, a), 0, 1, all.head_size),
                                        rows_of(together, row, 1, all.head_size)),
                    -1)
              << isa_name(isa) << ", row " << row << " of " << rows;
        }
      }
    }
  }
}

// A decoder's keys and values lie where its earlier tokens were, those of beams in any order.
TEST(AttentionRows, IndexedKeysHaveTheBitsOfTheSameKeysInOrder) {
  Seeded random;
  for (const auto& [rows, head] : {std::pair{3, 7}, {3, 16}, {17, 16}, {48, 16}, {3, 64}}) {
    for (const bool causal : {false, true}) {
      const Shape s{rows, 37, head, 0, false, causal, causal};
      const Inputs in = random_inputs(s, random);
      // Key k lies at row (11 k) % 41 of a table with other rows between.
      constexpr std::int64_t kRows = 41;
      std::vector<std::int32_t> index;
      Inputs spread = in;
      spread.key = normal(random, kRows * s.stride());
      spread.value = normal(random, kRows * s.stride());
      for (std::int64_t k = 0; k < s.key_rows; ++k) {
        const std::int64_t row = 11 * k % kRows;
        index.push_back(static_cast<std::int32_t>(row));
        std::copy_n(in.key.begin() + k * s.stride(), head, spread.key.begin() + row * s.stride());
        std::copy_n(in.value.begin() + k * s.stride(), head, spread.value.begin() + row * s.stride());
      }
      for (const Isa isa : isas()) {
        AttentionForward a = forward_call(s);
        const std::vector<float> in_order = run_forward(kernels_for(isa), in, s, a);
        a.key_index = index.data();
        EXPECT_EQ(first_different_bit(run_forward(kernels_for(isa), spread, s, a), in_order), -1) << isa_name(isa);
      }
    }
  }
}

// Not even the sign of a zero is another one: weights that are nearly zero, times negative values that are, sum to -0,
// which the zero weight of a later key would make 0.
TEST(AttentionRows, LaterValuesDoNotChangeTheSignOfAZero) {
  const Shape s{3, 3, 1, 0, false, false, true};
  for (const Isa isa : isas()) {
    Inputs in;
    in.query = {1.0f, 1.0f, 1.0f};
    in.key = {2.0f, 0.0f, 0.0f};
    in.value = {0.0f, -1e-45f, 1.0f};
    AttentionForward a = forward_call(s);
    a.query_position = 0;
    const float among = run_forward(kernels_for(isa), in, s, a)[1];
    a.query_rows = 1;
    a.query_position = 1;
    a.key_rows = 2;
    const float alone = run_forward(kernels_for(isa), in, s, a)[0];
    EXPECT_EQ(std::signbit(among), std::signbit(alone)) << isa_name(isa);
    EXPECT_EQ(among, 0.0f);
    EXPECT_EQ(alone, 0.0f);
  }
}

TEST(AttentionRows, KeysThatNoQuerySeesAreNotReadAndHaveZeroGradients) {
  Seeded random;
  const Shape s{50, 90, 16, 0, false, true, true};
  const std::int64_t seen = kQueryPosition + 50;
  Inputs in = random_inputs(s, random);
  for (const Isa isa : isas()) {
    const std::vector<float> before = run_forward(kernels_for(isa), in, s, forward_call(s));
    Inputs poisoned = in;
    std::fill(poisoned.key.begin() + seen * 16, poisoned.key.end(), std::numeric_limits<float>::quiet_NaN());
    std::fill(poisoned.value.begin() + seen * 16, poisoned.value.end(), std::numeric_limits<float>::quiet_NaN());
    EXPECT_EQ(first_different_bit(run_forward(kernels_for(isa), poisoned, s, forward_call(s)), before), -1);
    const std::vector<float> gradients = run_backward(kernels_for(isa), poisoned, s, backward_call(s));
    const std::vector<float> unseen(static_cast<std::size_t>((90 - seen) * 16));
    for (const std::int64_t first : {50 + seen, 50 + 90 + seen})
      EXPECT_EQ(first_different_bit(rows_of(gradients, first, 90 - seen, 16), unseen), -1) << isa_name(isa);
  }
}

TEST(AttentionRows, TheGradientOfABiasIsAddedToWhatIsThere) {
  Seeded random;
  const Shape s{60, 63, 16, 0, true, true};
  const Inputs in = random_inputs(s, random);
  const auto last = [&](const std::vector<float>& all) {
    return std::vector<float>(all.end() - static_cast<std::int64_t>(in.bias.size()), all.end());
  };
  for (const Isa isa : isas()) {
    const std::vector<float> once = run_backward(kernels_for(isa), in, s, backward_call(s));
    Inputs other = in;
    std::vector<float> sums(in.bias.size());
    for (const std::int64_t q : {std::int64_t{0}, std::int64_t{48}}) {  // in two goes, cut where blocks are
      AttentionBackward a = backward_call(s);
      a.query_rows = q == 0 ? 48 : 12;
      a.query_position += q;
      other.query = rows_of(in.query, q, a.query_rows, 16);
      other.d_out = rows_of(in.d_out, q, a.query_rows, 16);
      other.logsumexp = rows_of(in.logsumexp, q, a.query_rows, 1);
      sums = last(run_backward(kernels_for(isa), other, s, a, Place::kBeforeGuard, sums));
    }
    EXPECT_EQ(first_different_bit(sums, last(once)), -1) << isa_name(isa);
  }
}

}  // namespace
}  // namespace bascule::test::test_attention_rows
