// SPDX-License-Identifier: Apache-2.0
#include "src/plan/gradient_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "src/graph/backward.h"
#include "src/graph/operations.h"
#include "src/models/bridgetower.h"
#include "tests/models/published_configs.h"

namespace bascule::test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// A model's graph with its backward part, and the layout of its parameters.
struct Trained {
  ParameterSet parameters;
  std::unique_ptr<Graph> graph;
  ParameterLayout layout;

  Trained(const BridgeTowerConfig& config, ModelHead head) {
    BridgeTowerOptions options;
    options.head = head;
    graph = std::make_unique<Graph>(
        parameters, bridgetower_counts(2, 40, 6),
        bridgetower_fields(config, head, config.vision.image_size, config.vision.image_size, false));
    record_bridgetower(*graph, config, options);
    derive_backward(*graph);
    layout = lay_out_parameters(parameters, gradient_order(*graph));
  }
};

// A rank's ring while the graph runs: whose gradient each element holds. Sums nothing, but follows who writes and who
// reads, by the graph alone.
class Followed {
 public:
  Followed(const Trained& trained, const GradientRingPlan& plan)
      : graph_(*trained.graph), plan_(plan), holder_(plan.bytes / sizeof(float), -1), state_(size(), kNotThere) {}

  // Backward from the first node to the last, with the buckets' sums where they are due.
  void run() {
    const int nodes = static_cast<int>(graph_.nodes().size());
    for (int n = 0; n <= nodes; ++n) {
      while (bucket_ < plan_.buckets.size() && plan_.buckets[bucket_].end_node <= n) sum_next_bucket();
      if (n < nodes) write(n);
      if (::testing::Test::HasFatalFailure()) return;
    }
    EXPECT_EQ(bucket_, plan_.buckets.size());
    for (std::size_t p = 0; p < size(); ++p) EXPECT_TRUE(state_[p] == kNotThere || state_[p] == kSummed) << p;
  }

 private:
  enum State { kNotThere, kWritten, kSummed };
  std::size_t size() const { return static_cast<std::size_t>(graph_.parameters().size()); }

  // All ranks have come: what was summed before has been read.
  void sum_next_bucket() {
    const std::size_t bucket = bucket_++;
    for (int& holder : holder_) {
      if (holder >= 0 && state_[static_cast<std::size_t>(holder)] == kSummed) holder = -1;
    }
    const std::size_t first = bucket == 0 ? 0 : static_cast<std::size_t>(plan_.buckets[bucket - 1].pieces_end);
    for (std::size_t i = first; i < static_cast<std::size_t>(plan_.buckets[bucket].pieces_end); ++i) {
      const GradientRingPlan::Piece& piece = plan_.pieces[i];
      ASSERT_EQ(state_[static_cast<std::size_t>(piece.parameter)], kWritten);
      state_[static_cast<std::size_t>(piece.parameter)] = kSummed;
      const auto begin = holder_.begin() + piece.ring_offset;
      ASSERT_EQ(std::count(begin, begin + piece.elements, piece.parameter), piece.elements) << piece.parameter;
    }
  }

  void write(int node) {
    for (const Operand& use : graph_.nodes()[static_cast<std::size_t>(node)].operands) {
      if (!use) continue;
      const TensorInfo& info = graph_[use.tensor];
      if (info.storage != Storage::kGradient) continue;
      const std::size_t parameter = static_cast<std::size_t>(info.parameter);
      ASSERT_NE(state_[parameter], kSummed) << info.name << " is touched after its sum";
      if (use.access == Access::kRead) continue;
      state_[parameter] = kWritten;
      const auto begin = holder_.begin() + plan_.ring_offset[parameter];
      for (auto at = begin; at != begin + graph_.parameters()[info.parameter].elements(); ++at) {
        ASSERT_TRUE(*at == -1 || *at == info.parameter) << info.name << " is written over " << *at;
        *at = info.parameter;
      }
    }
  }

  const Graph& graph_;
  const GradientRingPlan& plan_;
  std::vector<int> holder_;  // by element of the ring: the parameter whose gradient is there and still needed
  std::vector<State> state_;
  std::size_t bucket_ = 0;
};

constexpr ModelHead kHeads[] = {ModelHead::kContrastive, ModelHead::kImageTextMatching, ModelHead::kMaskedLm};

BridgeTowerConfig demo_config() {
  return read_bridgetower_config(std::string(BASCULE_TEST_DATA) + "/emoji-captions/model/config.json");
}

TEST(GradientRing, KeepsEveryGradientUntilAllRanksHaveReadIt) {
  for (const ModelHead head : kHeads) {
    const Trained trained(demo_config(), head);
    for (const std::size_t bucket : {std::size_t{0}, kMiB / 8, kMiB, 64 * kMiB}) {
      const GradientRingPlan plan = plan_gradient_ring(*trained.graph, trained.layout, bucket);
      Followed(trained, plan).run();
    }
  }
}

TEST(GradientRing, ItsBucketsHoldEveryGradientOnceInTheOrderOfTheLayout) {
  for (const ModelHead head : kHeads) {
    const Trained trained(demo_config(), head);
    const GradientRingPlan plan = plan_gradient_ring(*trained.graph, trained.layout, kMiB);
    std::vector<int> order;
    std::int64_t end = 0;
    for (const GradientRingPlan::Piece& piece : plan.pieces) {
      order.push_back(piece.parameter);
      EXPECT_GE(piece.offset, end);
      EXPECT_EQ(piece.offset, trained.layout.places[static_cast<std::size_t>(piece.parameter)].offset);
      end = piece.offset + piece.elements;
    }
    EXPECT_EQ(order, gradient_order(*trained.graph));
    ASSERT_FALSE(plan.buckets.empty());
    EXPECT_EQ(plan.buckets.back().pieces_end, static_cast<std::int64_t>(plan.pieces.size()));
    for (std::size_t b = 1; b < plan.buckets.size(); ++b) {
      EXPECT_GT(plan.buckets[b].pieces_end, plan.buckets[b - 1].pieces_end);
      EXPECT_GT(plan.buckets[b].end_node, plan.buckets[b - 1].end_node);
    }
  }
}

TEST(GradientRing, IsSmallerThanTheGradientsHoweverLargeTheBuckets) {
  for (const ModelHead head : kHeads) {
    const Trained trained(demo_config(), head);
    const std::size_t range = static_cast<std::size_t>(trained.layout.trained_elements) * sizeof(float);
    EXPECT_LT(plan_gradient_ring(*trained.graph, trained.layout, 64 * kMiB).bytes, range / 2);
  }
}

// Two buckets, and what is in the making beside them; the word table alone, which is larger, where nothing else is.
TEST(GradientRing, IsASmallPartOfTheGradientsOfThePublishedModels) {
  for (const BridgeTowerConfig& config : {base_config(), large_config()}) {
    const Trained trained(config, ModelHead::kContrastive);
    const GradientRingPlan plan = plan_gradient_ring(*trained.graph, trained.layout, 25 * kMiB);
    const double range = static_cast<double>(trained.layout.trained_elements) * sizeof(float);
    EXPECT_LT(static_cast<double>(plan.bytes), 0.14 * range);
    EXPECT_LE(static_cast<double>(plan.bytes), 1.03 * static_cast<double>(plan.lower_bound_bytes));
  }
}

// An action changes a bucket's parameters: no node behind it reads them. Places are free at once.
TEST(UpdateRing, WaitsForTheLastReaderOfEachParameterAndHoldsLessThanARingOfSums) {
  for (const ModelHead head : kHeads) {
    const Trained trained(demo_config(), head);
    const GradientRingPlan plan = plan_update_ring(*trained.graph, trained.layout);
    const std::vector<Node>& nodes = trained.graph->nodes();
    for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
      for (const GradientRingPlan::Piece& piece : plan.pieces_of(b)) {
        for (std::size_t n = static_cast<std::size_t>(plan.buckets[b].end_node); n < nodes.size(); ++n) {
          for (const Operand& use : nodes[n].operands) {
            if (!use) continue;
            const TensorInfo& info = (*trained.graph)[use.tensor];
            const bool is_own = info.storage == Storage::kParameter || info.storage == Storage::kGradient;
            EXPECT_FALSE(is_own && info.parameter == piece.parameter) << info.name << " at node " << n;
          }
        }
      }
    }
    EXPECT_LT(plan.bytes, plan_gradient_ring(*trained.graph, trained.layout, 0).bytes);
    EXPECT_LE(static_cast<double>(plan.bytes), 1.03 * static_cast<double>(plan.lower_bound_bytes));
  }
}

// A parameter that a node behind backward reads, and one that is larger than all others and has no gradient.
TEST(UpdateRing, WaitsForAReaderBehindBackwardAndHasRoomForWhatHasNoGradient) {
  ParameterSet parameters;
  Graph g(parameters, bridgetower_counts(2, 40, 6),
          bridgetower_fields(demo_config(), ModelHead::kContrastive, 32, 32, false));
  const auto matrix = [&](const char* name, std::int64_t rows, std::int64_t cols) {
    return g.parameter({name, rows, cols, true, true, {}});
  };
  const Tensor x = g.input("x", rows_per_sample(1), 16), cotangent = g.input("c", rows_per_sample(1), 8);
  const Tensor first = matrix("first", 32, 16), second = matrix("second", 8, 32);
  const Tensor y = linear(g, "y", linear(g, "h", x, first, Tensor{}), second, Tensor{});
  cotangent_loss(g, {{y, cotangent}});
  matrix("unused", 100, 100);
  derive_backward(g);
  linear(g, "later", x, first, Tensor{});
  const int later = static_cast<int>(g.nodes().size()) - 1;
  const ParameterLayout layout = lay_out_parameters(parameters, gradient_order(g));
  const GradientRingPlan plan = plan_update_ring(g, layout);
  EXPECT_EQ(plan.buckets.back().end_node, later + 1);
  EXPECT_LT(plan_gradient_ring(g, layout, 0).buckets.back().end_node, later + 1);
  EXPECT_EQ(plan.bytes, 100 * 100 * sizeof(float));
}

}  // namespace
}  // namespace bascule::test
