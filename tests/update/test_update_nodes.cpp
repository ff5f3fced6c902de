// SPDX-License-Identifier: Apache-2.0
// The update of ranks on several nodes, simulated on one machine; run by mpirun, see meson.build. Argument: how many
// ranks a node has.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/reference/bf16.h"
#include "kernels/reference/elementwise.h"
#include "src/distributed/bucket_reducer.h"
#include "src/update/optimizer_states.h"
#include "tests/distributed/place_on_nodes.h"
#include "tests/update/row_optimizer.h"
#include "tests/update/summed_update.h"

namespace bascule::test {
namespace {

Group* all = nullptr;

void sum_into(std::vector<float>* sum, const std::vector<std::vector<float>>& parts) {
  std::vector<const float*> terms;
  for (const auto& part : parts) terms.push_back(part.data());
  sum->resize(kAll);
  reference::sum_terms(sum->data(), terms.data(), {nullptr, nullptr, static_cast<std::int64_t>(parts.size()), kAll});
}

void round_all(std::vector<float>* values) {
  std::vector<std::uint16_t> halves(values->size());
  reference::to_bf16({halves.data(), values->data(), kAll});
  reference::from_bf16({values->data(), halves.data(), kAll});
}

// In float32 this is the tree over all ranks, where nodes have a power of two of them.
std::vector<float> sum_of_nodes(bool is_bf16) {
  std::vector<std::vector<float>> nodes(static_cast<std::size_t>(all->nodes()));
  for (int node = 0; node < all->nodes(); ++node) {
    std::vector<std::vector<float>> ranks;
    for (int rank = 0; rank < all->local_size(); ++rank) ranks.push_back(gradient_of(node * all->local_size() + rank));
    sum_into(&nodes[static_cast<std::size_t>(node)], ranks);
    if (is_bf16) round_all(&nodes[static_cast<std::size_t>(node)]);
  }
  std::vector<float> sum;
  sum_into(&sum, nodes);
  if (is_bf16) round_all(&sum);
  return sum;
}

// Each element goes once from every other node to the one that sums it, and from there to every other node: as a sum,
// or, where states are shared out, as a weight, which is float32 whatever the sums are.
void expect_bytes_between_nodes(const Update& update, bool is_bf16, bool shares_states) {
  const double mine[] = {static_cast<double>(update.sent_bytes()), static_cast<double>(update.received_bytes())};
  std::vector<double> every(2 * static_cast<std::size_t>(all->size()));
  ASSERT_TRUE(all->exchange(Span<const double>(mine, 2), Span<double>(every)));
  double sent = 0.0, received = 0.0;
  for (std::size_t i = 0; i < every.size(); i += 2) {
    sent += every[i];
    received += every[i + 1];
  }
  const std::int64_t there = is_bf16 ? 2 : 4, back = is_bf16 && !shares_states ? 2 : 4;
  EXPECT_EQ(sent, static_cast<double>((all->nodes() - 1) * kAll * (there + back)));
  EXPECT_EQ(received, sent);
}

// bucket_blocks 0: after backward. Else a bucket is final after every tenth operation. shares_states: between the
// nodes.
void expect_truth(const Truth& truth, std::int64_t bucket_blocks, bool is_bf16, bool shares_states, std::int64_t number,
                  const OptimizerKind& kind = optimizer_kind(Optimizer::kAdamW)) {
  SharedModel model(*all, kind, shares_states);
  Update& update = model.update();
  std::vector<std::byte> memory(NodeLane::memory_bytes(all->nodes(), is_bf16));
  update.connect(Span<std::byte>(memory), is_bf16);
  std::vector<std::int64_t> marks;
  if (bucket_blocks > 0) {
    for (std::size_t bucket = 0; bucket < update.bucket_ends(bucket_blocks).size(); ++bucket)
      marks.push_back(static_cast<std::int64_t>(10 * bucket + 10));
    update.overlap(bucket_blocks, marks);
  }
  ASSERT_TRUE(all->barrier());
  Threads threads(2, false);
  all->position().begin_gradients(number);
  update.begin(number);
  for (std::int64_t operation = 0; bucket_blocks > 0 && operation <= marks.back(); ++operation)
    all->position().reach(operation);
  ASSERT_TRUE(all->barrier());
  EXPECT_EQ(model.differs(truth, update.run(threads, summed_settings()), all->node()), 0)
      << "rank " << all->rank() << ", buckets of " << bucket_blocks << (is_bf16 ? ", bf16" : "");
  ASSERT_TRUE(all->barrier());
  expect_bytes_between_nodes(update, is_bf16, shares_states);
}

TEST(UpdateOfNodes, HasTheBitsOfOneProcessWithTheSumOfAllForEveryBucketSize) {
  std::int64_t number = 0;
  for (const bool is_bf16 : {false, true}) {
    const Truth truth(sum_of_nodes(is_bf16));
    for (const std::int64_t bucket_blocks : {0, 1, 2, 5, 100})
      expect_truth(truth, bucket_blocks, is_bf16, false, ++number);
  }
}

TEST(UpdateOfNodes, HasTheSameBitsWhereStatesAreSharedOut) {
  for (const bool is_bf16 : {false, true})
    expect_truth(Truth(sum_of_nodes(is_bf16)), 0, is_bf16, true, is_bf16 ? 101 : 100);
}

TEST(UpdateOfNodes, HasTheSameBitsWithLambWhoeverHoldsTheStates) {
  const OptimizerKind& lamb = optimizer_kind(Optimizer::kLamb);
  const Truth truth(sum_of_nodes(false), lamb);
  expect_truth(truth, 0, false, false, 200, lamb);
  expect_truth(truth, 2, false, false, 201, lamb);
  expect_truth(truth, 0, false, true, 202, lamb);
}

TEST(UpdateOfNodes, HasTheSameBitsWithAdafactorOfWhichEveryNodeHoldsAll) {
  const OptimizerKind& adafactor = optimizer_kind(Optimizer::kAdafactor);
  const Truth truth(sum_of_nodes(false), adafactor);
  expect_truth(truth, 0, false, false, 250, adafactor);
  expect_truth(truth, 2, false, false, 251, adafactor);
}

TEST(UpdateOfNodes, HasTheSameBitsWithOneValueARowWhoeverHoldsIt) {
  const Truth truth(sum_of_nodes(false), kRowOptimizer);
  expect_truth(truth, 2, false, false, 300, kRowOptimizer);
  expect_truth(truth, 0, false, true, 301, kRowOptimizer);
}

// Value k of a state is k, and 1,000,000 more in the second state.
TEST(StateExchange, GivesRankZeroAnyPartOfAnyState) {
  if (!all->is_leader()) return;
  const ParameterLayout layout = summed_layout(RunDivision::kByMatrix);
  std::vector<float> rows(kAll), velocities(kAll);
  OptimizerStates states(kRowOptimizer, layout, {all->local_size(), all->nodes()}, {rows.data(), velocities.data()});
  const auto value = [](std::size_t state, std::int64_t k) {
    return static_cast<float>(static_cast<std::int64_t>(state) * 1000000 + k);
  };
  std::int64_t counts[2] = {};
  for (std::size_t state = 0; state < 2; ++state) {
    const StateRange& range = states.ranges[state];
    for (std::size_t b = 0; b < range.shards.blocks.size(); ++b) {
      const StateShards::Block& block = range.shards.blocks[b];
      counts[state] += block.count;
      for (std::int64_t i = 0; block.node == all->node() && i < block.count; ++i)
        range.of_block(b)[i] = value(state, block.first + i);
    }
  }
  EXPECT_EQ(counts[0], 10 + 39323 + 20);
  EXPECT_EQ(counts[1], kAll);
  StateExchange exchange(*all, states);
  if (!all->is_first()) {
    EXPECT_TRUE(exchange.serve().ok());
    return;
  }
  for (std::size_t state = 0; state < 2; ++state) {
    for (const std::int64_t first : {std::int64_t{0}, std::int64_t{7}, counts[state] - 5}) {
      std::vector<float> got(static_cast<std::size_t>(counts[state] - first));
      EXPECT_TRUE(exchange.read(state, first, counts[state] - first, got.data()).ok());
      std::int64_t next = first;
      EXPECT_TRUE(std::all_of(got.begin(), got.end(), [&](float v) { return v == value(state, next++); }))
          << "state " << state << " from " << first << ": value " << next - 1;
    }
  }
  exchange.finish();
}

TEST(StateShards, HoldEveryElementOnceOnNodesThatHoldEquallyMany) {
  const ParameterLayout layout = summed_layout();
  for (const int nodes : {1, 2, 3}) {
    for (const int ranks : {1, 2, 4}) {
      const StateShards shards = shard_state({"exp_avg"}, layout, {ranks, nodes});
      std::vector<std::int64_t> held(static_cast<std::size_t>(nodes));
      std::int64_t next = 0;
      for (std::size_t b = 0; b < shards.blocks.size(); ++b) {
        const StateShards::Block& block = shards.blocks[b];
        EXPECT_EQ(block.first, next);
        EXPECT_EQ(block.place, held.at(static_cast<std::size_t>(block.node)));
        EXPECT_EQ(shards.block_at(block.first), b);
        EXPECT_EQ(shards.block_at(block.first + block.count - 1), b);
        held.at(static_cast<std::size_t>(block.node)) += block.count;
        next += block.count;
      }
      EXPECT_EQ(next, kAll);
      EXPECT_LE(shards.elements, kAll / nodes + (ranks + 1) * kUpdateBlockElements);
    }
  }
}

}  // namespace
}  // namespace bascule::test

int main(int argc, char** argv) { return bascule::test::run_on_nodes(argc, argv, &bascule::test::all); }
