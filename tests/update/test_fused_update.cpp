// SPDX-License-Identifier: Apache-2.0
#include "src/update/update.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/graph/backward.h"
#include "src/graph/operations.h"
#include "src/session/session.h"
#include "tests/graph/graph_run.h"
#include "tests/graph/word_model.h"

namespace bascule::test::test_fused_update {
namespace {

constexpr BatchCounts kBounds = counts_of(3, 40, 20);

// Parameters that end amid a cache line, or have several blocks; one that is trained but has no gradient.
void record(Graph& g) {
  record_word_model(g, 3333, {301, 5, 1023, 99, 37});
  matrix(g, "unused", 60, 51);
  derive_backward(g);
}

struct Trained {
  Session session;
  Threads threads{2, false};
  std::vector<double> norms;

  explicit Trained(bool fuses) {
    record(session.add_graph(kBounds, batch_fields()));
    TrainingOptions options;
    options.optimizer = &optimizer_kind(Optimizer::kAdafactor);
    options.averages = true;
    options.activations_in_gradients = true;
    options.fuses_update = fuses;
    session.train(options);
    session.seal_alone(kernels_for(best_isa()), 2);
    Seeded random(3);
    for (std::int64_t i = 0; i < session.layout().trained_elements; ++i)
      session.parameter_memory().trained[i] = static_cast<float>(0.1 * random.normal());
    for (std::size_t p = 0; p < session.layout().places.size(); ++p) {  // gaps are zero
      const std::int64_t end = session.layout().places[p].offset + session.parameters()[static_cast<int>(p)].elements();
      for (std::int64_t i = end; i % 16 != 0; ++i) session.parameter_memory().trained[i] = 0.0f;
    }
  }
  void update(int number) {
    Seeded random(static_cast<std::uint64_t>(10 + number));
    TestBatch batch(random, {9, 12, 5}, 3333);
    for (std::size_t m = 0; m < batch.selected.size(); ++m)
      batch.labels.push_back(static_cast<std::int32_t>(random.integer(0, 3332)));
    Replay replay;
    replay.batch = batch.batch();
    UpdateSettings settings;
    settings.learning_rate = 1e-2;
    settings.weight_decay = 0.1;
    settings.step = number + 1;
    settings.gradient_factor = 0.5;
    settings.average_share = 0.25;
    session.training().begin(settings);
    EXPECT_TRUE(session.training().replay(threads, replay));
    norms.push_back(session.training().finish(threads, settings));
  }
  std::vector<float> values(const float* first) const { return {first, first + session.layout().trained_elements}; }
  std::vector<float> parameters() const { return values(session.parameter_memory().trained); }
  std::vector<float> of(const std::string& name) const {
    for (int p = 0; p < session.parameters().size(); ++p) {
      if (session.parameters()[p].name != name) continue;
      const float* const first = session.parameter_memory().at(p);
      return {first, first + session.parameters()[p].elements()};
    }
    return {};
  }
};

TEST(FusedUpdate, HasTheBitsOfAnUpdateAfterBackward) {
  Trained apart(false), fused(true);
  ASSERT_EQ(apart.session.training().fused(), nullptr);
  ASSERT_NE(fused.session.training().fused(), nullptr);
  const std::vector<float> unused = fused.of("unused");
  for (int number = 0; number < 3; ++number) {
    apart.update(number);
    fused.update(number);
  }
  EXPECT_EQ(fused.norms, apart.norms);
  EXPECT_GT(fused.norms[0], 0.0);
  EXPECT_EQ(fused.parameters(), apart.parameters());
  EXPECT_EQ(fused.values(fused.session.training().averages()), apart.values(apart.session.training().averages()));
  for (std::size_t state = 0; state < 3; ++state) {
    const StateRange& a = apart.session.training().optimizer_states().ranges[state];
    const StateRange& b = fused.session.training().optimizer_states().ranges[state];
    for (std::int64_t i = 0; i < a.shards.elements; ++i) ASSERT_EQ(a.values[i], b.values[i]) << state << ", " << i;
  }
  EXPECT_NE(fused.of("unused"), unused) << "what has no gradient decays, too";
}

TEST(FusedUpdate, NeedsNoMemoryForGradientsButTheRings) {
  Trained apart(false), fused(true);
  const auto bytes = [](Trained& t) {
    std::size_t all = 0;
    for (const PlannedRange& range : t.session.plan(2)) {
      if (range.name == "gradients" || range.name == "gradient ring") all += range.bytes;
    }
    return all;
  };
  // The word table's gradient is there from the first node to the last; beside it the largest of the others twice.
  EXPECT_LE(bytes(fused), (3333 * 37 + 2 * 1023 * 99 + 4096) * sizeof(float));
  EXPECT_LT(bytes(fused), bytes(apart));
}

// What became final before keeps its step, everything behind it its value; the next update is finite again.
TEST(FusedUpdate, StopsAtAGradientThatIsNotFinite) {
  Trained t(true);
  const int count = t.session.parameters().size();
  for (int p = 0; p < count; ++p) {
    if (t.session.parameters()[p].name == "301.b") t.session.parameter_memory().at(p)[3] = std::nanf("");
  }
  const std::vector<float> word = t.of("word"), unused = t.of("unused");
  t.update(0);
  EXPECT_FALSE(std::isfinite(t.norms[0]));
  EXPECT_EQ(t.of("word"), word);
  EXPECT_EQ(t.of("unused"), unused);
}

// `sharded` between nodes divides the states of other optimizers.
TEST(Adafactor, EveryNodeHoldsAllOfItsStates) {
  std::size_t bytes[2] = {};
  for (const int nodes : {1, 3}) {
    Session session;
    record(session.add_graph(kBounds, batch_fields()));
    TrainingOptions options;
    options.optimizer = &optimizer_kind(Optimizer::kAdafactor);
    options.state_nodes = nodes;
    session.train(options);
    for (const PlannedRange& range : session.plan(2, 2)) {
      if (range.name.rfind("exp_avg_sq", 0) == 0) bytes[nodes == 3] += range.bytes;
    }
  }
  EXPECT_GT(bytes[0], 0u);
  EXPECT_EQ(bytes[1], bytes[0]);
}

// The parameters of one bucket alone have a bad gradient: those of later buckets, whose gradients are good, keep their
// values as well.
TEST(FusedUpdate, UsesNoGradientBehindOneThatIsNotFinite) {
  Trained t(true);
  const std::vector<float> before = t.parameters();
  FusedUpdate& fused = *t.session.training().fused();
  UpdateSettings settings;
  settings.learning_rate = 1e-2;
  fused.begin(settings);
  const GradientRingPlan plan = plan_update_ring(t.session.graph(0), t.session.layout());
  ASSERT_GT(plan.buckets.size(), 2u);
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    std::fill_n(t.session.training().gradients(), plan.bytes / sizeof(float), b == 0 ? std::nanf("") : 0.5f);
    EXPECT_TRUE(fused.act(b, 0, t.threads));
  }
  EXPECT_FALSE(std::isfinite(fused.finish(t.threads)));
  EXPECT_EQ(t.parameters(), before);
}

}  // namespace
}  // namespace bascule::test::test_fused_update
