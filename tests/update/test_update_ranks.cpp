// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/reference/elementwise.h"
#include "tests/distributed/forked_ranks.h"
#include "tests/update/row_optimizer.h"
#include "tests/update/summed_update.h"

namespace bascule::test::test_update_ranks {
namespace {

std::vector<float> sum_of_all(int ranks) {
  std::vector<std::vector<float>> all;
  std::vector<const float*> terms;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(gradient_of(rank));
  for (const auto& one : all) terms.push_back(one.data());
  std::vector<float> sum(kAll);
  reference::sum_terms(sum.data(), terms.data(), {nullptr, nullptr, ranks, kAll});
  return sum;
}

int run_rank(const RankPlace& place, const Truth& truth, const OptimizerKind& kind) {
  Group group(place, {30, nullptr});
  SharedModel model(group, kind);
  if (!group.barrier()) return 1;
  Threads threads(2, false, &group.heart());
  const int different = model.differs(truth, model.update().run(threads, summed_settings()));
  if (different != 0) return different;
  return group.leave() ? 0 : 6;
}

TEST(UpdateOfRanks, HasTheBitsOfOneProcessWithTheSumOfAll) {
  for (const int ranks : {2, 3, 4, 7}) {
    for (const OptimizerKind* kind : {&optimizer_kind(Optimizer::kAdamW), &optimizer_kind(Optimizer::kLamb),
                                      &optimizer_kind(Optimizer::kAdafactor), &kRowOptimizer}) {
      const Truth truth(sum_of_all(ranks), *kind);
      const Ends ends = run_ranks(ranks, [&](const RankPlace& place) { return run_rank(place, truth, *kind); });
      EXPECT_EQ(ends, Ends(static_cast<std::size_t>(ranks), 0)) << ranks;
    }
  }
}

// Each rank adds one to every number of its own memory: all are then one.
TEST(UpdateOfRanks, EachWorkAloneOnPartsOfTheStatesAndAveragesThatCoverThem) {
  for (const int ranks : {2, 3, 7}) {
    const Ends ends = run_ranks(ranks, [&](const RankPlace& place) {
      Group group(place, {30, nullptr});
      SharedModel model(group);
      if (!group.barrier()) return 1;
      for (const Span<std::byte>& part : model.update().own_memory()) {
        float* const values = static_cast<float*>(static_cast<void*>(part.data()));
        for (std::size_t i = 0; i < part.size() / sizeof(float); ++i) values[i] += 1.0f;
      }
      if (!group.barrier()) return 1;
      for (const std::size_t range : {1u, 2u, 4u}) {
        if (std::count(model.range(range), model.range(range) + kAll, 1.0f) != kAll) return 2;
      }
      return group.leave() ? 0 : 6;
    });
    EXPECT_EQ(ends, Ends(static_cast<std::size_t>(ranks), 0)) << ranks;
  }
}

}  // namespace
}  // namespace bascule::test::test_update_ranks
