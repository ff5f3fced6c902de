// SPDX-License-Identifier: Apache-2.0
// A session whose optimizer the program does not have: planned, sealed, stepped, saved and loaded.
#include "src/session/parameter_values.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "src/graph/backward.h"
#include "src/graph/operations.h"
#include "src/session/session.h"
#include "tests/graph/graph_run.h"
#include "tests/graph/word_model.h"
#include "tests/update/row_optimizer.h"

namespace bascule::test::test_state_values {
namespace {

constexpr BatchCounts kBounds = counts_of(6, 60, 30);

// The word table has rows in three blocks.
void record(Graph& g) {
  Tensor x = record_words(g, matrix(g, "word", 3333, 37), 37);
  x = linear(g, "up", x, matrix(g, "w", 101, 37), matrix(g, "b", 1, 101));
  x = activation(g, "a", x, Activation::kGelu);
  const Tensor rows = gather_rows(g, "rows", x, g.field("selected_rows"));
  cross_entropy_loss(g, linear(g, "logits", rows, matrix(g, "out", 90, 101), Tensor{}), g.field("labels"));
  derive_backward(g);
}

TrainingOptions by_rows() {
  TrainingOptions options;
  options.optimizer = &kRowOptimizer;
  return options;
}

struct Trained {
  Session session;
  Threads threads{2, false};

  Trained() {
    record(session.add_graph(kBounds, batch_fields()));
    session.train(by_rows());
    session.seal_alone(kernels_for(best_isa()), 2);
    Seeded random(3);
    for (std::int64_t i = 0; i < session.layout().trained_elements; ++i)
      session.parameter_memory().trained[i] = static_cast<float>(0.1 * random.normal());
  }
  void update(int number) {
    Seeded random(static_cast<std::uint64_t>(10 + number));
    TestBatch batch(random, {9, 12, 5}, 3333);
    for (std::size_t m = 0; m < batch.selected.size(); ++m)
      batch.labels.push_back(static_cast<std::int32_t>(random.integer(0, 89)));
    Replay replay;
    replay.batch = batch.batch();
    session.tape(0).replay(threads, replay);
    UpdateSettings settings;
    settings.learning_rate = 1e-2;
    session.training().update().run(threads, settings);
  }
  std::vector<float> parameters() const {
    const float* const first = session.parameter_memory().trained;
    return {first, first + session.layout().trained_elements};
  }
  std::vector<float> state(std::size_t number, std::int64_t count) const {
    const float* const first = session.training().optimizer_states().ranges[number].values;
    return {first, first + count};
  }
};

constexpr std::int64_t kRows = 3333 + 70 + 101 + 90;  // of matrices

class StateValues : public ::testing::Test {
 protected:
  StateValues() : path_(std::filesystem::temp_directory_path() / ("bascule_states_" + std::to_string(::getpid()))) {
    for (int number = 0; number < 2; ++number) first_.update(number);
    const Session& session = first_.session;
    std::vector<TensorToWrite> tensors =
        states_to_write(session.training().optimizer_states(), session.parameter_memory(), nullptr, nullptr);
    EXPECT_TRUE(SafetensorsWritePlan(std::move(tensors)).write(path_.c_str()).ok());
  }
  ~StateValues() override { std::filesystem::remove(path_); }

  void load(const std::vector<WantedTensor>& wanted) {
    const TensorSource source = open_safetensors(path_.string());
    StartWork work;
    load_tensors(&work, source, wanted, "");
    work.run(first_.threads);
  }

  Trained first_;
  std::filesystem::path path_;
};

TEST_F(StateValues, ArePlannedInPlaceOfMoments) {
  Session session;
  record(session.add_graph(kBounds, batch_fields()));
  session.train(by_rows());
  const MemoryPlan plan = make_memory_plan(session.plan(2), 0);
  EXPECT_EQ(plan["row_mean"].bytes, static_cast<std::size_t>(kRows) * sizeof(float));
  EXPECT_EQ(plan["velocity"].bytes, plan["gradients"].bytes);
  for (const PlannedRange& range : plan.categories) EXPECT_NE(range.name, "exp_avg");
}

TEST_F(StateValues, ComeBackFromACheckpointAndTrainingGoesOnWithTheSameBits) {
  const TensorSource source = open_safetensors(path_.string());
  ASSERT_NE(source.find("row_mean.word"), nullptr);
  EXPECT_EQ(source.find("row_mean.word")->shape, std::vector<std::int64_t>{3333});
  EXPECT_EQ(source.find("velocity.word")->shape, (std::vector<std::int64_t>{3333, 37}));
  Trained second;
  const std::vector<float> weights = first_.parameters();
  std::copy(weights.begin(), weights.end(), second.session.parameter_memory().trained);
  load(wanted_states(second.session.training().optimizer_states(), second.session.parameter_memory(), 0));
  EXPECT_EQ(second.state(0, kRows), first_.state(0, kRows));
  EXPECT_NE(second.state(0, kRows), std::vector<float>(kRows, 0.0f));
  first_.update(2);
  second.update(2);
  EXPECT_EQ(second.parameters(), first_.parameters());
  EXPECT_EQ(second.state(0, kRows), first_.state(0, kRows));
}

TEST_F(StateValues, GoToTheNodeThatHoldsThem) {
  const Session& session = first_.session;
  const StateSharing sharing{2, 3};
  for (int node = 0; node < sharing.nodes; ++node) {
    std::vector<float> rows(kRows, -1.0f), velocities(static_cast<std::size_t>(session.layout().trained_elements));
    const OptimizerStates shared(kRowOptimizer, session.layout(), sharing, {rows.data(), velocities.data()});
    load(wanted_states(shared, session.parameter_memory(), node));
    std::int64_t held = 0;
    for (std::size_t state = 0; state < 2; ++state) {
      const StateRange& range = shared.ranges[state];
      for (std::size_t b = 0; b < range.shards.blocks.size(); ++b) {
        const StateShards::Block& block = range.shards.blocks[b];
        if (block.node != node) continue;
        const float* const whole = session.training().optimizer_states().ranges[state].values + block.first;
        EXPECT_TRUE(std::equal(whole, whole + block.count, range.of_block(b))) << "state " << state << ", block " << b;
        if (state == 0) held += block.count;
      }
    }
    EXPECT_TRUE(std::all_of(rows.begin() + held, rows.end(), [](float value) { return value == -1.0f; }));
  }
}

}  // namespace
}  // namespace bascule::test::test_state_values
