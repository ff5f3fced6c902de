// SPDX-License-Identifier: Apache-2.0
// Every process is a node of its own; run by mpirun, see meson.build.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "kernels/reference/bf16.h"
#include "kernels/reference/elementwise.h"
#include "kernels/table.h"
#include "src/distributed/lane_reduction.h"

namespace bascule::test {
namespace {

int node() {
  int number = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &number);
  return number;
}

int nodes() {
  int count = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  return count;
}

using Values = std::vector<std::vector<float>>;  // by block

struct Case {
  const char* name = "";
  std::vector<LaneBlock> blocks;  // without data
  LaneOptions options;
  bool trickles = false;  // each node's blocks become ready at instants of its own
};

// The values have many sizes, so that the order of adding shows.
Values part_of(const Case& c, int of_node, int update) {
  std::minstd_rand random(static_cast<unsigned>(1000 * update + of_node + 1));
  Values values;
  for (const LaneBlock& block : c.blocks) {
    std::vector<float>& part = values.emplace_back(static_cast<std::size_t>(block.count));
    for (float& value : part) {
      const unsigned bits = static_cast<unsigned>(random());
      value = (static_cast<float>(bits & 0xffffffu) - 0x800000p0f) * (bits >> 28 == 0 ? 1.0f : 0x1p-8f);
    }
  }
  return values;
}

void round_all(std::vector<float>* values) {
  std::vector<std::uint16_t> halves(values->size());
  const std::int64_t count = static_cast<std::int64_t>(values->size());
  reference::to_bf16({halves.data(), values->data(), count});
  reference::from_bf16({values->data(), halves.data(), count});
}

// The values that this node must hold in the end.
Values truth_of(const Case& c, int update) {
  std::vector<Values> parts;
  for (int n = 0; n < nodes(); ++n) parts.push_back(part_of(c, n, update));
  Values truth = parts[static_cast<std::size_t>(node())];
  for (std::size_t b = 0; b < c.blocks.size(); ++b) {
    const int owner = c.blocks[b].owner;
    if (c.options.work == LaneWork::kSpread) {
      truth[b] = parts[static_cast<std::size_t>(owner)][b];
    } else if (c.options.work == LaneWork::kReduceAndSpread || owner == node()) {
      std::vector<const float*> terms;
      for (Values& part : parts) {
        if (c.options.is_bf16) round_all(&part[b]);
        terms.push_back(part[b].data());
      }
      reference::sum_terms(truth[b].data(), terms.data(), {nullptr, nullptr, nodes(), c.blocks[b].count});
      if (c.options.is_bf16) round_all(&truth[b]);
    }
  }
  return truth;
}

// Before a block is ready its place holds something else.
void reduce(LaneReduction& lane, const Case& c, const Values& parts, Values* values, std::mt19937& random) {
  for (std::vector<float>& block : *values) std::fill(block.begin(), block.end(), 1e30f);
  std::size_t ready = 0;
  lane.begin();
  while (!lane.is_done()) {
    const std::size_t more = c.trickles ? (random() % 4 == 0 ? random() % 7 : 0) : parts.size();
    for (const std::size_t end = std::min(parts.size(), ready + more); ready < end; ++ready)
      std::copy(parts[ready].begin(), parts[ready].end(), (*values)[ready].begin());
    ASSERT_FALSE(lane.has_failed());
    if (!lane.advance(ready)) std::this_thread::yield();
  }
}

void expect_sums(const Case& c) {
  Values values = part_of(c, node(), 0);
  std::vector<LaneBlock> blocks = c.blocks;
  for (std::size_t b = 0; b < blocks.size(); ++b) blocks[b].data = values[b].data();
  const KernelTable& kernels = kernels_for(best_isa());
  std::vector<std::byte> memory(LaneReduction::memory_bytes(nodes(), c.options));
  LaneReduction lane(MPI_COMM_WORLD, blocks, {kernels.sum_terms, kernels.to_bf16, kernels.from_bf16},
                     Span<std::byte>(memory), c.options);
  EXPECT_TRUE(lane.is_done());
  std::mt19937 random(static_cast<unsigned>(node()));
  for (int update = 0; update < 2; ++update) {
    const Values parts = part_of(c, node(), update), truth = truth_of(c, update);
    reduce(lane, c, parts, &values, random);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      ASSERT_EQ(std::memcmp(values[b].data(), truth[b].data(), truth[b].size() * sizeof(float)), 0)
          << c.name << ", node " << node() << ", update " << update << ", block " << b;
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

enum class Owners { kInTurn, kAny, kLast };

// The same on every node.
std::vector<LaneBlock> some_blocks(int count, std::int32_t most, Owners owners) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::vector<LaneBlock> blocks;
  for (int b = 0; b < count; ++b) {
    const int any = static_cast<int>(random() % static_cast<unsigned>(nodes()));
    const std::int32_t elements = 1 + static_cast<std::int32_t>(random() % static_cast<unsigned>(most));
    blocks.push_back({nullptr, elements,
                      owners == Owners::kAny    ? any
                      : owners == Owners::kLast ? nodes() - 1
                                                : b % nodes()});
  }
  return blocks;
}

std::vector<Case> cases(LaneWork work, bool is_bf16) {
  const LaneOptions now{work, is_bf16, 0.0}, late{work, is_bf16, 2e-3};
  std::vector<LaneBlock> whole = some_blocks(12, 1, Owners::kInTurn);
  for (LaneBlock& block : whole) block.count = LaneReduction::kMostElements;
  return {{"many small ones", some_blocks(300, 700, Owners::kAny), now, false},
          {"whole blocks", std::move(whole), now, false},
          {"of all sizes", some_blocks(12, LaneReduction::kMostElements, Owners::kInTurn), now, true},
          {"all of one owner", some_blocks(60, 5000, Owners::kLast), now, true},
          {"over a long wire", some_blocks(50, 8000, Owners::kAny), late, false},
          {"late over a long wire", some_blocks(40, 8000, Owners::kInTurn), late, true},
          {"one", some_blocks(1, 10, Owners::kInTurn), now, true},
          {"none", {}, now, false}};
}

TEST(LaneReduction, LeavesTheTreesSumOnAllNodes) {
  for (const Case& c : cases(LaneWork::kReduceAndSpread, false)) expect_sums(c);
}

TEST(LaneReduction, InBf16RoundsEveryPartAndTheSumOnTheOwnerToo) {
  for (const Case& c : cases(LaneWork::kReduceAndSpread, true)) expect_sums(c);
}

TEST(LaneReduction, LeavesTheSumOnItsOwnerAlone) {
  for (const bool is_bf16 : {false, true}) {
    for (const Case& c : cases(LaneWork::kReduce, is_bf16)) expect_sums(c);
  }
}

TEST(LaneReduction, SpreadsWhatTheOwnerHas) {
  for (const Case& c : cases(LaneWork::kSpread, false)) expect_sums(c);
}

TEST(LaneReduction, MovesNoMoreThanItMust) {
  for (const bool is_bf16 : {false, true}) {
    Case c{"", some_blocks(8 * nodes(), 1, Owners::kInTurn), {LaneWork::kReduceAndSpread, is_bf16, 0.0}, false};
    for (LaneBlock& block : c.blocks) block.count = 1000;
    const Values parts = part_of(c, node(), 0);
    Values values = parts;
    for (std::size_t b = 0; b < values.size(); ++b) c.blocks[b].data = values[b].data();
    const KernelTable& kernels = kernels_for(best_isa());
    std::vector<std::byte> memory(LaneReduction::memory_bytes(nodes(), c.options));
    LaneReduction lane(MPI_COMM_WORLD, c.blocks, {kernels.sum_terms, kernels.to_bf16, kernels.from_bf16},
                       Span<std::byte>(memory), c.options);
    std::mt19937 random(1);
    reduce(lane, c, parts, &values, random);
    const std::int64_t bytes = 8 * nodes() * 1000 * (is_bf16 ? 2 : 4);
    EXPECT_EQ(lane.sent_bytes(), 2 * bytes * (nodes() - 1) / nodes());
    EXPECT_EQ(lane.received_bytes(), lane.sent_bytes());
  }
}

}  // namespace
}  // namespace bascule::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  MPI_Init(&argc, &argv);
  const int code = RUN_ALL_TESTS();
  MPI_Finalize();
  return code;
}
