// SPDX-License-Identifier: Apache-2.0
// One update of a made-up model by several ranks, and what one process makes of the gradients' sum.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/table.h"
#include "src/base/span.h"
#include "src/distributed/group.h"
#include "src/update/update.h"
#include "tests/support/seeded.h"

namespace bascule::test {

constexpr std::int64_t kDecayed = 5 * kUpdateBlockElements + 48, kRest = 80, kAll = kDecayed + kRest;

// By tensor and by matrix the second lies in four blocks, the third in two. By matrix the third is a vector, and the
// last is five matrices.
inline ParameterLayout summed_layout(RunDivision division = RunDivision::kByRule) {
  constexpr std::int64_t kSecond = 1000, kThird = kSecond + 3 * kUpdateBlockElements + 7;
  ParameterLayout layout;
  layout.runs = {{0, kDecayed, true}, {kDecayed, kRest, false}};
  if (division != RunDivision::kByRule)
    layout.runs = {{0, kSecond, true},
                   {kSecond, kThird - kSecond, true},
                   {kThird, kDecayed - kThird, true},
                   {kDecayed, kRest, false}};
  const std::int64_t matrices[] = {1, 1, 0, 5}, rows[] = {10, (kThird - kSecond) / 5, 1, 4},
                     cols[] = {100, 5, kDecayed - kThird, 4};
  for (std::size_t i = 0; division == RunDivision::kByMatrix && i < 4; ++i) {
    layout.runs[i].matrices = matrices[i];
    layout.runs[i].rows = rows[i];
    layout.runs[i].cols = cols[i];
  }
  layout.trained_elements = kAll;
  return layout;
}

inline UpdateSettings summed_settings() {
  UpdateSettings s;
  s.learning_rate = 1e-2;
  s.weight_decay = 0.1;
  s.max_grad_norm = 1.0;
  s.average_share = 0.25;
  return s;
}

inline std::vector<float> normal_of_all(std::uint64_t seed) {
  Seeded random(seed);
  std::vector<float> values;
  for (std::int64_t i = 0; i < kAll; ++i) values.push_back(static_cast<float>(random.normal()));
  return values;
}

inline std::vector<float> gradient_of(int rank) { return normal_of_all(100 + static_cast<std::uint64_t>(rank)); }

// The result of one process with this gradient.
struct Truth {
  std::vector<float> parameters = normal_of_all(1), gradients, states[3], averages;
  double norm = 0.0;

  explicit Truth(std::vector<float> gradient, const OptimizerKind& kind = optimizer_kind(Optimizer::kAdamW))
      : gradients(std::move(gradient)), averages(kAll, 0.0f) {
    for (std::vector<float>& state : states) state.assign(kAll, 0.0f);
    const ParameterLayout l = summed_layout(kind.runs);
    std::vector<double> partials(Update::partials_count(l, kind));
    Threads threads(1, false);
    std::vector<float*> values = {states[0].data(), states[1].data(), states[2].data()};
    values.resize(kind.states.size());
    const OptimizerStates optimizer_states(kind, l, {}, values);
    Update update(l, parameters.data(), {gradients.data()}, optimizer_states, partials.data(), kernels_for(best_isa()));
    update.keep_average(averages.data());
    norm = update.run(threads, summed_settings());
  }
};

// The model in memory that the ranks of a node share, ready for one update.
class SharedModel {
 public:
  // By all ranks together. shares_states: between the nodes.
  explicit SharedModel(Group& group, const OptimizerKind& kind = optimizer_kind(Optimizer::kAdamW),
                       bool shares_states = false) {
    const int ranks = group.local_size();
    memory_ = group.share((5 + static_cast<std::size_t>(ranks)) * kRange + kPage);
    const std::vector<float> own = gradient_of(group.rank()), start = normal_of_all(1);
    std::copy(own.begin(), own.end(), at(5 + static_cast<std::size_t>(group.local_rank())));
    if (group.is_leader()) std::copy(start.begin(), start.end(), at(0));
    std::vector<float*> gradients;
    for (int rank = 0; rank < ranks; ++rank) gradients.push_back(at(5 + static_cast<std::size_t>(rank)));
    double* const partials = static_cast<double*>(static_cast<void*>(memory_.data() + memory_.bytes() - kPage));
    const ParameterLayout layout = summed_layout(kind.runs);
    std::vector<float*> values = {at(1), at(2), at(3)};
    values.resize(kind.states.size());
    states_ = OptimizerStates(kind, layout, {ranks, shares_states ? group.nodes() : 1}, values);
    update_ = std::make_unique<Update>(layout, at(0), gradients, states_, partials, kernels_for(best_isa()), &group);
    update_->keep_average(at(4));
  }
  Update& update() { return *update_; }
  // 1, 2: the first two states; 4: the averages.
  const float* range(std::size_t number) const { return at(number); }
  // 0: has the bits of the truth; else where it has not. node: this one.
  int differs(const Truth& truth, double norm, int node = 0) const {
    const std::size_t bytes = kAll * sizeof(float);
    if (norm != truth.norm) return 2;
    if (std::memcmp(at(0), truth.parameters.data(), bytes) != 0) return 3;
    if (std::memcmp(at(4), truth.averages.data(), bytes) != 0) return 8;
    for (std::size_t i = 0; i < states_.ranges.size(); ++i) {
      const StateRange& range = states_.ranges[i];
      for (const StateShards::Block& block : range.shards.blocks) {
        const std::size_t size = static_cast<std::size_t>(block.count) * sizeof(float);
        const bool is_here = !states_.are_shared_out || block.node == node;
        if (is_here && std::memcmp(range.values + block.place, truth.states[i].data() + block.first, size) != 0)
          return 4 + static_cast<int>(i);
      }
    }
    return 0;
  }

 private:
  static constexpr std::size_t kRange = (kAll * sizeof(float) + kPage - 1) / kPage * kPage;

  float* at(std::size_t range) const {
    return static_cast<float*>(static_cast<void*>(memory_.data() + range * kRange));
  }

  SharedMemory memory_;
  OptimizerStates states_;
  std::unique_ptr<Update> update_;
};

}  // namespace bascule::test
