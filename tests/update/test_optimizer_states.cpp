// SPDX-License-Identifier: Apache-2.0
#include "src/update/optimizer_states.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "src/update/update.h"
#include "tests/support/seeded.h"
#include "tests/update/row_optimizer.h"

namespace bascule::test::test_optimizer_states {
namespace {

struct TensorShape {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t matrices, rows, cols;  // as ParameterLayout::Run

  std::int64_t all_rows() const { return matrices > 0 ? matrices * rows : 1; }
};

// In the order of the trained range: two matrices in one parameter, cut into three blocks and one; a vector; a scalar;
// a tensor of four dimensions.
const std::vector<TensorShape> kTensors = {{"query", {250, 700}, 1, 250, 700},
                                           {"key", {90, 700}, 1, 90, 700},
                                           {"bias", {101}, 0, 1, 101},
                                           {"scale", {}, 0, 1, 1},
                                           {"patches", {5, 3, 2, 2}, 15, 2, 2}};
constexpr std::int64_t kMatrixRows = 250 + 90 + 30;

struct RowModel {
  ParameterSet set;
  ParameterLayout layout;
  std::vector<float> parameters, gradients, row_means, velocities;
  std::vector<double> partials;

  RowModel() {
    add("qkv", 340, 700, 0, 2);
    add("bias", 1, 101, 2, 3);
    add("scale", 1, 1, 3, 4);
    add("patches", 5, 12, 4, 5);
    layout = lay_out_parameters(set, {}, RunDivision::kByMatrix);
    Seeded random(5);
    const std::size_t count = static_cast<std::size_t>(layout.trained_elements);
    parameters.assign(count, 0.0f);
    gradients.assign(count, 0.0f);
    for (std::size_t t = 0; t < kTensors.size(); ++t) {
      for (std::int64_t i = 0; i < kTensors[t].all_rows() * kTensors[t].cols; ++i) {
        parameters[static_cast<std::size_t>(offset_of(t) + i)] = static_cast<float>(random.normal());
        gradients[static_cast<std::size_t>(offset_of(t) + i)] = static_cast<float>(random.normal());
      }
    }
    velocities.assign(count, 0.0f);
    row_means.assign(kMatrixRows, 0.0f);
    partials.assign(Update::partials_count(layout, kRowOptimizer), 0.0);
  }
  void add(const std::string& name, std::int64_t rows, std::int64_t cols, std::size_t first, std::size_t end) {
    Parameter parameter{name, rows, cols, true, true, {}};
    std::int64_t elements = 0;
    for (std::size_t t = first; t < end; ++t) {
      const std::int64_t own = kTensors[t].all_rows() * kTensors[t].cols;
      parameter.pieces.push_back({kTensors[t].name, kTensors[t].shape, elements, own, {}});
      elements += own;
    }
    set.add(std::move(parameter));
  }
  // A parameter takes a multiple of 16 elements.
  static std::int64_t offset_of(std::size_t tensor) {
    const std::int64_t offsets[] = {0, 175000, 238000, 238112, 238128};
    return offsets[tensor];
  }
  OptimizerStates states() { return {kRowOptimizer, layout, {}, {row_means.data(), velocities.data()}}; }
};

TEST(UpdateBlocks, HoldWholeRowsOfALayoutByMatrix) {
  const RowModel m;
  const std::vector<UpdateBlock> blocks = cut_into_blocks(m.layout);
  EXPECT_EQ(blocks.size(), block_count(m.layout));
  std::int64_t next = 0;
  std::vector<std::int64_t> rows(kTensors.size());
  for (const UpdateBlock& block : blocks) {
    const std::size_t tensor = static_cast<std::size_t>(block.run);
    EXPECT_EQ(block.offset, next);
    EXPECT_EQ((block.offset - RowModel::offset_of(tensor)) % kTensors[tensor].cols, 0);
    EXPECT_EQ(block.cols, kTensors[tensor].cols);
    EXPECT_GE(block.count, block.rows * block.cols);
    EXPECT_LE(block.count, kUpdateBlockElements);
    rows[tensor] += block.rows;
    next += block.count;
  }
  EXPECT_EQ(next, m.layout.trained_elements);
  EXPECT_EQ(blocks.size(), 7u);
  for (std::size_t t = 0; t < kTensors.size(); ++t) EXPECT_EQ(rows[t], kTensors[t].all_rows()) << kTensors[t].name;
}

// Rows longer than a block have one each.
TEST(UpdateBlocks, AreAsLongAsARowAtLeast) {
  ParameterLayout layout;
  layout.runs = {{0, 3 * kUpdateBlockElements, true, -1, 1, 2, 3 * kUpdateBlockElements / 2}};
  ASSERT_EQ(cut_into_blocks(layout).size(), 2u);
  EXPECT_EQ(cut_into_blocks(layout)[0].count, 3 * kUpdateBlockElements / 2);
  EXPECT_EQ(block_count(layout), 2u);
}

TEST(OptimizerStates, AreTensorsOfACheckpointByNameAndShape) {
  const RowModel m;
  const std::vector<StateTensor> rows = state_tensors(kRowStates[0], m.set, m.layout);
  const std::vector<StateTensor> elements = state_tensors(kRowStates[1], m.set, m.layout);
  ASSERT_EQ(rows.size(), 3u);
  ASSERT_EQ(elements.size(), kTensors.size());
  const std::int64_t firsts[] = {0, 250, 340};
  const std::size_t matrices[] = {0, 1, 4};
  for (std::size_t i = 0; i < 3; ++i) {
    const TensorShape& tensor = kTensors[matrices[i]];
    EXPECT_EQ(rows[i].name, "row_mean." + tensor.name);
    EXPECT_EQ(rows[i].first, firsts[i]);
    EXPECT_EQ(rows[i].shape, std::vector<std::int64_t>(tensor.shape.begin(), tensor.shape.end() - 1));
  }
  for (std::size_t t = 0; t < kTensors.size(); ++t) {
    EXPECT_EQ(elements[t].shape, kTensors[t].shape);
    EXPECT_EQ(elements[t].name, "velocity." + kTensors[t].name);
    EXPECT_EQ(elements[t].first, RowModel::offset_of(t));
  }
}

// As Adafactor keeps them; the middle of a matrix has its columns where the matrix begins.
TEST(OptimizerStates, OfColumnsAndVectorsHaveTheirShapesAndPlaces) {
  const RowModel m;
  const OptimizerState columns{"col", OptimizerState::Lies::kByColumn}, vectors{"v", OptimizerState::Lies::kOfVectors};
  const std::vector<StateTensor> by_column = state_tensors(columns, m.set, m.layout);
  ASSERT_EQ(by_column.size(), 3u);
  EXPECT_EQ(by_column[1].name, "col.key");
  EXPECT_EQ(by_column[1].shape, std::vector<std::int64_t>{700});
  EXPECT_EQ(by_column[1].first, 700);
  EXPECT_EQ(by_column[2].shape, (std::vector<std::int64_t>{5, 3, 2}));
  EXPECT_EQ(by_column[2].first, 1400);
  const std::vector<StateTensor> of_vectors = state_tensors(vectors, m.set, m.layout);
  ASSERT_EQ(of_vectors.size(), 2u);
  EXPECT_EQ(of_vectors[0].shape, std::vector<std::int64_t>{101});
  EXPECT_EQ(of_vectors[1].shape, std::vector<std::int64_t>{});
  EXPECT_EQ(of_vectors[1].first, 101);

  const StateShards shards = shard_state(columns, m.layout, {});
  const std::vector<UpdateBlock> blocks = cut_into_blocks(m.layout);
  EXPECT_EQ(shards.elements, 700 + 700 + 30);
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const std::int64_t places[] = {0, 700, 1400, 1400, 1400};
    if (blocks[b].matrix_rows > 0) {
      EXPECT_EQ(shards.blocks[b].place, places[blocks[b].run]) << b;
    }
  }
  EXPECT_EQ(shard_state(vectors, m.layout, {}).elements, 102);
}

TEST(OptimizerStates, ArePlannedToTheByteWhoeverHoldsThem) {
  const RowModel m;
  const std::vector<PlannedRange> all = plan_states(kRowOptimizer, m.layout, {2, 1}, true);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "row_mean");
  EXPECT_EQ(all[0].bytes, static_cast<std::size_t>(kMatrixRows) * sizeof(float));
  EXPECT_EQ(all[1].name, "velocity");
  EXPECT_EQ(all[1].bytes, m.velocities.size() * sizeof(float));
  EXPECT_TRUE(all[0].shared);
  const std::vector<PlannedRange> shared_out = plan_states(kRowOptimizer, m.layout, {2, 3}, true);
  for (std::size_t state = 0; state < 2; ++state) {
    const StateShards shards = shard_state(kRowStates[state], m.layout, {2, 3});
    std::vector<std::int64_t> ends(3);
    for (const StateShards::Block& block : shards.blocks) {
      EXPECT_EQ(block.place, ends.at(static_cast<std::size_t>(block.node)));
      ends.at(static_cast<std::size_t>(block.node)) += block.count;
    }
    EXPECT_EQ(shared_out[state].bytes,
              static_cast<std::size_t>(*std::max_element(ends.begin(), ends.end())) * sizeof(float));
    EXPECT_LT(shared_out[state].bytes, all[state].bytes);
  }
}

// Three updates, tensor by tensor in plain loops.
TEST(OptimizerOfTheTests, HasOneValueARowWhateverTheBlocksAndThreads) {
  UpdateSettings s;
  s.learning_rate = 1e-2;
  for (const int thread_count : {1, 3}) {
    RowModel m, plain;
    const OptimizerStates states = m.states();
    Update update(m.layout, m.parameters.data(), {m.gradients.data()}, states, m.partials.data(),
                  kernels_for(best_isa()));
    Threads threads(thread_count, false);
    for (int step = 0; step < 3; ++step) {
      update.run(threads, s);
      std::int64_t first_row = 0;
      for (std::size_t t = 0; t < kTensors.size(); ++t) {
        const std::int64_t offset = RowModel::offset_of(t);
        UpdateBlock shape;
        shape.rows = kTensors[t].all_rows();
        shape.cols = kTensors[t].cols;
        shape.matrix_rows = kTensors[t].matrices > 0 ? kTensors[t].rows : 0;
        OptimizerBlock whole{s,
                             kernels_for(best_isa()),
                             shape,
                             s.learning_rate,
                             0.0,
                             plain.parameters.data() + offset,
                             plain.gradients.data() + offset,
                             1.0f,
                             0,
                             {},
                             nullptr,
                             {},
                             {}};
        whole.states[0] = plain.row_means.data() + first_row;
        whole.states[1] = plain.velocities.data() + offset;
        row_block(whole);
        if (shape.matrix_rows > 0) first_row += shape.rows;
      }
    }
    EXPECT_EQ(m.row_means, plain.row_means);
    EXPECT_EQ(m.velocities, plain.velocities);
    EXPECT_EQ(m.parameters, plain.parameters);
    for (const float mean : m.row_means) EXPECT_GT(mean, 0.0f);
  }
}

}  // namespace
}  // namespace bascule::test::test_optimizer_states
