// SPDX-License-Identifier: Apache-2.0
#include "src/plan/choose_recompute.h"

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/graph/backward.h"
#include "src/models/bridgetower.h"
#include "src/plan/workspace.h"
#include "tests/models/published_configs.h"
#include "tests/support/sanitized.h"

namespace bascule::test {
namespace {

struct Recorded {
  ParameterSet parameters;
  std::unique_ptr<Graph> graph;
};

std::unique_ptr<Recorded> record(const BridgeTowerConfig& config, ModelHead head, std::int64_t batch,
                                 std::int64_t tokens) {
  auto recorded = std::make_unique<Recorded>();
  const std::int64_t side = config.vision.image_size;
  recorded->graph = std::make_unique<Graph>(
      recorded->parameters,
      bridgetower_counts(batch, batch * tokens, head == ModelHead::kMaskedLm ? batch * tokens / 6 : 0),
      bridgetower_fields(config, head, side, side, true));
  BridgeTowerOptions options;
  options.head = head;
  options.dropout = true;
  record_bridgetower(*recorded->graph, config, options);
  derive_backward(*recorded->graph);
  return recorded;
}

// One cross-modal layer on two layers of each tower: few enough layers to try every choice.
BridgeTowerConfig few_layers() {
  BridgeTowerConfig config;
  config.contrastive_hidden_size = 12;
  config.has_logit_scale = true;
  config.hidden_size = config.text.hidden_size = config.vision.hidden_size = 64;
  config.num_hidden_layers = 1;
  config.text.num_hidden_layers = config.vision.num_hidden_layers = 1;
  config.text.num_attention_heads = 4;
  config.text.intermediate_size = 256;
  config.text.vocab_size = 50;
  config.vision.image_size = 32;
  config.vision.patch_size = 8;
  return config;
}

std::vector<RecomputePlan> every_choice(const RecomputePlanner& planner, std::size_t layers) {
  std::vector<RecomputePlan> plans;
  std::vector<Recompute> choice(layers, Recompute::kNothing);
  for (bool more = true; more;) {
    plans.push_back(planner.plan(choice));
    more = false;
    for (Recompute& layer : choice) {
      if (layer != Recompute::kAll) {
        layer = static_cast<Recompute>(static_cast<int>(layer) + 1);
        more = true;
        break;
      }
      layer = Recompute::kNothing;
    }
  }
  return plans;
}

// The bound is one always. Within a twentieth of the smallest workspace, where places decide, the choice may be worse.
TEST(ChooseRecompute, FindsWhatTryingEveryChoiceFinds) {
  const std::unique_ptr<Recorded> recorded = record(few_layers(), ModelHead::kMaskedLm, 6, 30);
  const RecomputePlanner planner(*recorded->graph);
  const std::vector<RecomputePlan> all = every_choice(planner, layers_of(*recorded->graph).size());
  std::size_t smallest = all.front().workspace_bytes;
  for (const RecomputePlan& plan : all) smallest = std::min(smallest, plan.workspace_bytes);
  const std::size_t most = all.front().workspace_bytes;  // nothing is recomputed
  for (std::size_t i = 0; i <= 20; ++i) {
    const std::size_t limit = smallest + (most - smallest) * i / 20;
    double best = all.back().flops;
    for (const RecomputePlan& plan : all) {
      if (plan.workspace_bytes <= limit) best = std::min(best, plan.flops);
    }
    EXPECT_LE(planner.least_flops(limit), best) << limit;
    const std::optional<RecomputePlan> found = planner.fit(limit);
    if (limit < smallest + smallest / 20) continue;
    ASSERT_TRUE(found.has_value()) << limit << " of " << smallest << " to " << most;
    EXPECT_LE(found->workspace_bytes, limit);
    EXPECT_LE(found->flops, 1.02 * best) << limit << " of " << smallest << " to " << most;
  }
  EXPECT_FALSE(planner.fit(smallest - 4096).has_value());
}

TEST(ChooseRecompute, TheSameLimitGivesTheSameChoice) {
  const std::unique_ptr<Recorded> first = record(base_config(), ModelHead::kContrastive, 8, 25),
                                  second = record(base_config(), ModelHead::kContrastive, 8, 25);
  const RecomputePlanner one(*first->graph), other(*second->graph);
  const std::size_t limit = one.everywhere(Recompute::kNothing).workspace_bytes / 2;
  EXPECT_EQ(one.fit(limit)->choice, other.fit(limit)->choice);
}

// On the published models, recomputing everything must leave at most a quarter of the memory, for at most a third
// more operations. What a limit asks for never costs more, and is near the bound; plans are near theirs.
TEST(ChooseRecompute, ThePublishedModelsKeepAQuarterAndEveryLimitIsNearItsBound) {
  const std::pair<BridgeTowerConfig, ModelHead> models[] = {{base_config(), ModelHead::kContrastive},
                                                            {large_config(), ModelHead::kMaskedLm}};
  for (const auto& [config, head] : models) {
    const std::unique_ptr<Recorded> recorded = record(config, head, 8, 25);
    const Graph& graph = *recorded->graph;
    double step = 0.0;
    for (const Node& node : graph.nodes()) step += node.kind->cost(NodeView(graph, node), graph.bounds()).flops;
    const RecomputePlanner planner(graph);
    const RecomputePlan off = planner.everywhere(Recompute::kNothing), full = planner.everywhere(Recompute::kAll);
    EXPECT_EQ(off.flops, 0.0);
    EXPECT_LE(4 * full.workspace_bytes, off.workspace_bytes);
    EXPECT_LE(full.flops, 0.33 * step);
    for (std::size_t i = 0; i <= 4; ++i) {
      const std::size_t limit = full.workspace_bytes + (off.workspace_bytes - full.workspace_bytes) * i / 4;
      const std::optional<RecomputePlan> fit = planner.fit(limit);
      ASSERT_TRUE(fit.has_value());
      EXPECT_LE(fit->workspace_bytes, limit);
      EXPECT_LE(fit->flops, full.flops);
      EXPECT_LE(fit->flops, planner.least_flops(limit) + 0.02 * step) << "limit " << limit;
      Graph recomputed = graph;
      recompute(recomputed, fit->choice);
      const WorkspacePlan plan = plan_workspace(recomputed);
      EXPECT_EQ(plan.bytes, fit->workspace_bytes);
      EXPECT_LE(static_cast<double>(plan.bytes), 1.02 * static_cast<double>(plan.lower_bound_bytes));
    }
  }
}

TEST(ChooseRecompute, TheFrontierFallsFromTheSmallestWorkspaceToNothingRecomputed) {
  const std::unique_ptr<Recorded> recorded = record(base_config(), ModelHead::kContrastive, 8, 25);
  const std::vector<RecomputePlan> frontier = RecomputePlanner(*recorded->graph).frontier(10);
  ASSERT_EQ(frontier.size(), 10u);
  for (std::size_t i = 1; i < frontier.size(); ++i) {
    EXPECT_GT(frontier[i].workspace_bytes, frontier[i - 1].workspace_bytes);
    EXPECT_LT(frontier[i].flops, frontier[i - 1].flops);
  }
  EXPECT_EQ(frontier.back().flops, 0.0);
}

// Time of this thread: other work on the machine does not count.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(ChooseRecompute, TheLargeModelTakesUnderASecond) {
  const std::unique_ptr<Recorded> recorded = record(large_config(), ModelHead::kContrastive, 40, 128);
  const double begin = thread_seconds();
  const RecomputePlanner planner(*recorded->graph);
  const std::vector<RecomputePlan> frontier = planner.frontier(10);
  ASSERT_TRUE(planner.fit(frontier[4].workspace_bytes + 12345678).has_value());
  if (!kIsSanitized) {
    EXPECT_LT(thread_seconds() - begin, 1.0);
  }
}

}  // namespace
}  // namespace bascule::test
