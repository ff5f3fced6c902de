// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/reference/elementwise.h"
#include "kernels/table.h"
#include "src/train/update.h"
#include "tests/distributed/forked_ranks.h"
#include "tests/support/seeded.h"

namespace bascule::test {
namespace {

constexpr std::int64_t kDecayed = 5 * Update::kBlock + 48, kRest = 80, kAll = kDecayed + kRest;

ParameterLayout layout() {
  ParameterLayout layout;
  layout.runs = {{0, kDecayed, true}, {kDecayed, kRest, false}};
  layout.trained_elements = kAll;
  return layout;
}

UpdateSettings settings() {
  UpdateSettings s;
  s.learning_rate = 1e-2;
  s.weight_decay = 0.1;
  s.max_grad_norm = 1.0;
  return s;
}

std::vector<float> normal(std::uint64_t seed) {
  Seeded random(seed);
  std::vector<float> values;
  for (std::int64_t i = 0; i < kAll; ++i) values.push_back(static_cast<float>(random.normal()));
  return values;
}

// What one process makes of the gradients' sum.
struct Truth {
  std::vector<float> parameters = normal(1), gradients = std::vector<float>(kAll), exp_avg, exp_avg_sq;
  double norm = 0.0;

  explicit Truth(int ranks) : exp_avg(kAll, 0.0f), exp_avg_sq(kAll, 0.0f) {
    std::vector<std::vector<float>> all;
    std::vector<const float*> terms;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(normal(100 + static_cast<std::uint64_t>(rank)));
    for (const auto& one : all) terms.push_back(one.data());
    reference::sum_terms(gradients.data(), terms.data(), {nullptr, nullptr, ranks, kAll});
    const ParameterLayout l = layout();
    std::vector<double> partials(Update::block_count(l));
    Threads threads(1, false);
    Update update(l, parameters.data(), {gradients.data()}, exp_avg.data(), exp_avg_sq.data(), partials.data(),
                  kernels_for(best_isa()));
    norm = update.run(threads, settings());
  }
};

int run_rank(const RankPlace& place, const Truth& truth) {
  Group group(place, {30, nullptr});
  const ParameterLayout l = layout();
  const std::size_t range = align_up<std::size_t>(kAll * sizeof(float), kPage), ranges = 3;
  const SharedMemory memory = group.share((ranges + static_cast<std::size_t>(place.local_size)) * range + kPage);
  const auto at = [&](std::size_t number) {
    return static_cast<float*>(static_cast<void*>(memory.data() + number * range));
  };
  std::vector<float*> gradients;
  for (int rank = 0; rank < place.local_size; ++rank) gradients.push_back(at(ranges + static_cast<std::size_t>(rank)));
  double* const partials = static_cast<double*>(static_cast<void*>(memory.data() + memory.bytes() - kPage));
  const std::vector<float> own = normal(100 + static_cast<std::uint64_t>(place.rank)), start = normal(1);
  std::copy(own.begin(), own.end(), gradients[static_cast<std::size_t>(place.local_rank)]);
  if (place.rank == 0) std::copy(start.begin(), start.end(), at(0));
  if (!group.barrier()) return 1;
  Threads threads(2, false, &group.heart());
  Update update(l, at(0), gradients, at(1), at(2), partials, kernels_for(best_isa()), &group);
  if (update.run(threads, settings()) != truth.norm) return 2;
  const std::size_t bytes = kAll * sizeof(float);
  if (std::memcmp(at(0), truth.parameters.data(), bytes) != 0) return 3;
  if (std::memcmp(at(1), truth.exp_avg.data(), bytes) != 0) return 4;
  if (std::memcmp(at(2), truth.exp_avg_sq.data(), bytes) != 0) return 5;
  return group.leave() ? 0 : 6;
}

TEST(UpdateOfRanks, HasTheBitsOfOneProcessWithTheSumOfAll) {
  for (const int ranks : {2, 3, 4, 7}) {
    const Truth truth(ranks);
    const Ends ends = run_ranks(ranks, [&](const RankPlace& place) { return run_rank(place, truth); });
    EXPECT_EQ(ends, Ends(static_cast<std::size_t>(ranks), 0)) << ranks;
  }
}

}  // namespace
}  // namespace bascule::test
