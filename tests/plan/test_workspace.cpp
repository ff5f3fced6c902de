// SPDX-License-Identifier: Apache-2.0
#include "src/plan/workspace.h"

#include <gtest/gtest.h>

#include <memory>

#include "src/base/span.h"
#include "src/graph/backward.h"
#include "src/graph/operations.h"
#include "src/models/bridgetower.h"
#include "tests/models/published_configs.h"
#include "tests/support/reference_dir.h"

namespace bascule::test::test_workspace {
namespace {

struct Life {
  int first = -1, last = -1;
};

// When a tensor is alive, from the graph alone: first and last node that touch it; inputs from the start, kept ones to
// the end.
Life life_of(const Graph& graph, std::size_t index) {
  Life life;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    for (const Operand& use : graph.nodes()[n].operands) {
      if (!use) continue;
      if (static_cast<std::size_t>(use.tensor.index) != index) continue;
      if (life.first < 0) life.first = static_cast<int>(n);
      life.last = static_cast<int>(n);
    }
  }
  if (life.first < 0) return life;
  if (graph.tensors()[index].storage == Storage::kInput) life.first = 0;
  if (graph.tensors()[index].kept) life.last = static_cast<int>(graph.nodes().size());
  return life;
}

std::vector<Life> lives_of(const Graph& graph) {
  std::vector<Life> lives;
  for (std::size_t i = 0; i < graph.tensors().size(); ++i) lives.push_back(life_of(graph, i));
  return lives;
}

bool is_placed(const TensorInfo& info) {
  return info.storage == Storage::kActivation || info.storage == Storage::kInput;
}

Access access_at(const Graph& graph, int node, Tensor tensor) {
  for (const Operand& use : graph.nodes()[static_cast<std::size_t>(node)].operands) {
    if (!use) continue;
    if (use.tensor == tensor) return use.access;
  }
  ADD_FAILURE() << "node " << node << " does not touch " << graph[tensor].name;
  return Access::kRead;
}

// If two tensors lie in one buffer, the later follows the earlier: written, and only written, by the operation that
// reads the earlier last, and the operation has said that it may.
void expect_right_chain(const Graph& graph, const WorkspaceBuffer& buffer, const std::vector<Life>& lives) {
  for (std::size_t i = 1; i < buffer.tensors.size(); ++i) {
    const Tensor earlier = buffer.tensors[i - 1], later = buffer.tensors[i];
    const Life a = lives[static_cast<std::size_t>(earlier.index)], b = lives[static_cast<std::size_t>(later.index)];
    EXPECT_EQ(graph[later].may_share.index, earlier.index) << graph[later].name;
    EXPECT_FALSE(graph[earlier].kept) << graph[earlier].name;
    ASSERT_EQ(a.last, b.first) << graph[earlier].name << " and " << graph[later].name;
    EXPECT_EQ(access_at(graph, b.first, later), Access::kWrite) << graph[later].name;
    EXPECT_NE(access_at(graph, b.first, earlier), Access::kWrite) << graph[earlier].name;
  }
}

void expect_right_plan(const Graph& graph) {
  const WorkspacePlan plan = plan_workspace(graph);
  const std::vector<Life> lives = lives_of(graph);
  std::vector<std::size_t> alive_bytes(graph.nodes().size() + 1, 0);
  for (std::size_t i = 0; i < graph.tensors().size(); ++i) {
    const TensorInfo& info = graph.tensors()[i];
    ASSERT_EQ(plan.buffer_of[i] >= 0, is_placed(info) && lives[i].first >= 0) << info.name;
    if (plan.buffer_of[i] < 0) continue;
    const WorkspaceBuffer& buffer = plan.buffers[static_cast<std::size_t>(plan.buffer_of[i])];
    const std::int64_t rows =
        align_up<std::int64_t>(info.rows.at(graph.bounds()), 16);  // matrix products touch whole blocks of 16
    EXPECT_GE(buffer.request.bytes, static_cast<std::size_t>(rows * info.cols) * element_bytes(info.dtype))
        << info.name;
    EXPECT_LE(buffer.request.first, lives[i].first) << info.name;
    EXPECT_GE(buffer.request.last, lives[i].last) << info.name;
    EXPECT_EQ(buffer.offset % 64, 0u) << info.name;
    EXPECT_LE(buffer.offset + buffer.request.bytes, plan.bytes) << info.name;
  }
  std::vector<BufferRequest> requests;
  Placement placement;
  placement.peak_bytes = plan.bytes;
  for (const WorkspaceBuffer& buffer : plan.buffers) {
    expect_right_chain(graph, buffer, lives);
    requests.push_back(buffer.request);
    placement.offsets.push_back(buffer.offset);
  }
  EXPECT_EQ(first_overlap(requests, placement), std::nullopt);
  EXPECT_GE(plan.bytes, plan.lower_bound_bytes);
  EXPECT_EQ(plan.lower_bound_bytes, lower_bound_bytes(requests));
}

BridgeTowerConfig demo_config() {
  return read_bridgetower_config(reference_dir() + "/emoji-captions/model/config.json");
}

Fields fields_of(const BridgeTowerConfig& config, ModelHead head) {
  return bridgetower_fields(config, head, config.vision.image_size, config.vision.image_size, true);
}

struct Recorded {
  ParameterSet parameters;
  std::unique_ptr<Graph> graph;
};

void record(Recorded* recorded, const BridgeTowerConfig& config, const BatchCounts& bounds,
            const BridgeTowerOptions& options, bool train) {
  recorded->graph = std::make_unique<Graph>(recorded->parameters, bounds, fields_of(config, options.head));
  record_bridgetower(*recorded->graph, config, options);
  if (train) derive_backward(*recorded->graph);
}

TEST(Workspace, PlansOfTheDemoModelAreRightForEveryHead) {
  const BridgeTowerConfig config = demo_config();
  for (const ModelHead head : {ModelHead::kContrastive, ModelHead::kImageTextMatching, ModelHead::kMaskedLm}) {
    for (const bool train : {false, true}) {
      SCOPED_TRACE(std::string(architecture_name(head)) + (train ? " train" : " evaluate"));
      Recorded recorded;
      BridgeTowerOptions options;
      options.head = head;
      options.dropout = train;
      options.every_output = !train;
      record(&recorded, config, bridgetower_counts(8, 150, 40), options, train);
      expect_right_plan(*recorded.graph);
    }
  }
}

TEST(Workspace, PlansOfFrozenTowersAndEveryLinkTowerAreRight) {
  BridgeTowerConfig config = demo_config();
  for (const LinkTower link : {LinkTower::kAdd, LinkTower::kScaledAdd, LinkTower::kInterpolate}) {
    config.link_tower_type = link;
    for (int frozen = 0; frozen < 4; ++frozen) {
      Recorded recorded;
      BridgeTowerOptions options;
      if ((frozen & 1) != 0) options.frozen.push_back("vision_model");
      if ((frozen & 2) != 0) options.frozen.push_back("text_model");
      record(&recorded, config, bridgetower_counts(3, 40), options, true);
      expect_right_plan(*recorded.graph);
    }
  }
}

// The bare model with cotangents: inputs that the caller writes before the first operation and the last ones read.
TEST(Workspace, InputsAreAliveFromTheStart) {
  Recorded recorded;
  recorded.graph = std::make_unique<Graph>(recorded.parameters, bridgetower_counts(3, 40),
                                           fields_of(demo_config(), ModelHead::kBase));
  Graph& graph = *recorded.graph;
  BridgeTowerOptions options;
  options.head = ModelHead::kBase;
  const BridgeTowerOutputs out = record_bridgetower(graph, demo_config(), options);
  const Tensor cotangent = graph.input("cotangent", graph[out.pooler_output].rows, graph[out.pooler_output].cols);
  cotangent_loss(graph, {{out.pooler_output, cotangent}});
  derive_backward(graph);
  expect_right_plan(graph);
}

// An operation may write over what it reads; not if another reads that as well, even the next one, or the caller.
TEST(Workspace, AnOutputTakesItsInputsPlaceOnlyIfNobodyElseReadsThat) {
  for (const bool read_again : {false, true}) {
    for (const bool kept : {false, true}) {
      ParameterSet parameters;
      Graph graph(parameters, bridgetower_counts(3, 40));
      const Tensor x = graph.input("x", rows_of_stream(kTextTokens), 8);
      const Tensor weight = graph.parameter({"w", 8, 8, true, true, {}});
      const Tensor h = linear(graph, "h", x, weight, Tensor{});
      const Tensor y = activation(graph, "y", h, Activation::kGelu);
      graph.keep(read_again ? concatenate(graph, "z", y, h) : linear(graph, "z", y, weight, Tensor{}));
      if (kept) graph.keep(h);
      expect_right_plan(graph);
      const WorkspacePlan plan = plan_workspace(graph);
      const auto buffer = [&](Tensor tensor) { return plan.buffer_of[static_cast<std::size_t>(tensor.index)]; };
      EXPECT_EQ(buffer(y) == buffer(h), !read_again && !kept);
    }
  }
}

TEST(Workspace, AnOutputThatIsLargerThanItsInputHasAPlaceOfItsOwn) {
  ParameterSet parameters;
  Graph graph(parameters, bridgetower_counts(3, 40));
  const Tensor x = graph.input("x", rows_of_stream(kTextTokens), 8);
  const Tensor h = linear(graph, "h", x, graph.parameter({"w", 8, 8, true, true, {}}), Tensor{});
  const Tensor wide = linear(graph, "wide", h, graph.parameter({"v", 16, 8, true, true, {}}), Tensor{});
  graph.may_share(wide, h);
  graph.keep(wide);
  const WorkspacePlan plan = plan_workspace(graph);
  EXPECT_NE(plan.buffer_of[static_cast<std::size_t>(wide.index)], plan.buffer_of[static_cast<std::size_t>(h.index)]);
}

TEST(Workspace, PlansOfThePublishedModelsAreRight) {
  for (const BridgeTowerConfig& config : {base_config(), large_config()}) {
    for (const std::int64_t batch : {1, 8}) {
      Recorded recorded;
      record(&recorded, config, bridgetower_counts(batch, 128 * batch), {}, true);
      expect_right_plan(*recorded.graph);
    }
  }
}

TEST(Workspace, ALargerBatchNeedsMore) {
  std::size_t before = 0;
  for (const std::int64_t batch : {1, 2, 7, 8, 33}) {
    Recorded recorded;
    record(&recorded, demo_config(), bridgetower_counts(batch, 20 * batch), {}, true);
    const std::size_t bytes = plan_workspace(*recorded.graph).bytes;
    EXPECT_GT(bytes, before);
    before = bytes;
  }
}

TEST(Workspace, TheLargestBuffersComeLargestFirst) {
  Recorded recorded;
  record(&recorded, demo_config(), bridgetower_counts(8, 150), {}, true);
  const std::vector<LargestBuffer> largest = largest_buffers(*recorded.graph, plan_workspace(*recorded.graph), 8);
  ASSERT_EQ(largest.size(), 8u);
  for (std::size_t i = 1; i < largest.size(); ++i) EXPECT_GE(largest[i - 1].bytes, largest[i].bytes);
  EXPECT_NE(largest[0].name.find(" x "), std::string::npos) << largest[0].name;
}

}  // namespace
}  // namespace bascule::test::test_workspace
