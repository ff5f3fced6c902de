// SPDX-License-Identifier: Apache-2.0
#include "src/update/gradient_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "src/graph/backward.h"
#include "src/graph/operations.h"
#include "src/session/session.h"
#include "tests/distributed/forked_ranks.h"
#include "tests/graph/graph_run.h"
#include "tests/graph/word_model.h"
#include "tests/support/own_products.h"

namespace bascule::test::test_gradient_ring {
namespace {

constexpr BatchCounts kBounds = counts_of(6, 60, 30);

void record(Graph& g) {
  record_word_model(g, 333, {301, 5, 99, 1023, 37});
  derive_backward(g);
}

// A session of one rank with its memory, with a ring or without.
struct Sealed {
  Session session;
  SharedMemory memory;
  std::unique_ptr<Arena> arena;

  Sealed(Group& group, std::optional<std::size_t> bucket_bytes) {
    record(session.add_graph(kBounds, batch_fields()));
    TrainingOptions options;
    options.bucket_bytes = bucket_bytes;
    session.train(options);
    const std::vector<PlannedRange> ranges = session.plan(2, group.local_size());
    const MemoryPlan plan = make_memory_plan(ranges, 0, 0, static_cast<std::size_t>(group.local_size()));
    memory = group.share(plan.shared_bytes);
    arena = std::make_unique<Arena>(plan, HugePages::kTransparent, memory.data());
    session.seal(*arena, plan, kernels_for(best_isa()), 2, &group);
    Seeded random(3);
    const ParameterMemory parameters = session.parameter_memory();
    for (std::int64_t i = 0; group.is_first() && i < session.layout().trained_elements; ++i)
      parameters.trained[i] = static_cast<float>(0.1 * random.normal());
  }
};

// Captions of a rank's own; none for the last one.
TestBatch batch_of(int rank, int ranks) {
  Seeded random(static_cast<std::uint64_t>(20 + rank));
  TestBatch batch(random, rank + 1 == ranks ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{9, 1 + rank, 20},
                  333);
  for (std::size_t m = 0; m < batch.selected.size(); ++m)
    batch.labels.push_back(static_cast<std::int32_t>(random.integer(0, 332)));
  return batch;
}

// Twice, so that each place has held other gradients before.
int replay(Session& session, Threads& threads, const TestBatch& batch) {
  Replay replay;
  replay.batch = batch.batch();
  Training& training = session.training();
  for (int time = 0; time < 2; ++time) {
    if (!(batch.samples() > 0 ? training.replay(threads, replay) : training.replay_without_samples(threads, true)))
      return 1;
  }
  return 0;
}

int run_rank(const RankPlace& place, std::size_t bucket_bytes) {
  Group group(place, {30, nullptr});
  Sealed whole(group, std::nullopt), ring(group, bucket_bytes);
  if (whole.session.training().has_ring() || !ring.session.training().has_ring() || !group.barrier()) return 2;
  Threads threads(2, false, &group.heart());
  const TestBatch batch = batch_of(place.rank, place.world_size);
  double norms[2];
  Sealed* const both[] = {&whole, &ring};
  for (int i = 0; i < 2; ++i) {
    if (replay(both[i]->session, threads, batch) != 0 || !group.barrier()) return 3;
    norms[i] = both[i]->session.training().update().run(threads, UpdateSettings{1e-2, 0.9, 0.999, 1e-8, 0.1, 1.0, 1});
  }
  if (!(norms[0] > 0.0) || norms[0] != norms[1]) return 4;
  const std::size_t bytes = static_cast<std::size_t>(whole.session.layout().trained_elements) * sizeof(float);
  const float* const parameters[] = {whole.session.parameter_memory().trained, ring.session.parameter_memory().trained};
  if (std::memcmp(parameters[0], parameters[1], bytes) != 0) return 5;
  const float* const exp_avg[] = {whole.session.training().optimizer_states().ranges[0].values,
                                  ring.session.training().optimizer_states().ranges[0].values};
  if (std::memcmp(exp_avg[0], exp_avg[1], bytes) != 0) return 6;
  return group.leave() ? 0 : 7;
}

// A tape with parameters of its own; gradients lie where the caller says, in a ring or in a whole range.
struct OwnTape {
  ParameterSet parameters;
  Graph graph{parameters, kBounds, batch_fields()};
  ParameterLayout layout;
  GradientRingPlan ring;
  TapeMemory memory;
  std::unique_ptr<Arena> arena;
  OwnProducts products{2, best_isa()};
  std::unique_ptr<Tape> tape;

  OwnTape() {
    record(graph);
    layout = lay_out_parameters(parameters, gradient_order(graph));
  }
  void seal(bool has_ring, float* gradients) {
    const WorkspacePlan workspace = plan_workspace(graph, nullptr);
    const std::size_t trained = static_cast<std::size_t>(layout.trained_elements) * sizeof(float);
    const MemoryPlan plan = make_memory_plan({{"trained", trained},
                                              {"fixed", 64},
                                              {"workspace", workspace.bytes},
                                              {"scratch", 2 * workspace.thread_scratch_bytes}},
                                             0);
    arena = std::make_unique<Arena>(plan, HugePages::kTransparent);
    memory.trained_parameters = arena->as<float>(plan["trained"]);
    memory.gradients = gradients;
    memory.fixed_parameters = arena->as<float>(plan["fixed"]);
    memory.workspace = arena->at(plan["workspace"]);
    memory.thread_scratch = arena->at(plan["scratch"]);
    memory.thread_scratch_bytes = workspace.thread_scratch_bytes;
    if (has_ring) memory.gradient_offsets = ring.ring_offset.data();
    Seeded random(3);
    for (std::int64_t i = 0; i < layout.trained_elements; ++i)
      memory.trained_parameters[i] = static_cast<float>(0.1 * random.normal());
    tape = std::make_unique<Tape>(graph, workspace, layout, memory, kernels_for(best_isa()), products);
  }
};

// Adds the ranks' gradients to values of its own, bucket by bucket.
struct AddBuckets final : BucketAction {
  const GradientRingPlan& plan;
  const std::vector<float*> rings;
  std::vector<float> added;
  std::size_t next = 0;

  AddBuckets(const GradientRingPlan& ring, std::vector<float*> of_ranks, std::int64_t elements)
      : plan(ring), rings(std::move(of_ranks)), added(static_cast<std::size_t>(elements)) {}
  bool act(std::size_t bucket, std::int64_t, Threads&) noexcept override {
    if (bucket != next++ % plan.buckets.size()) return false;
    for (const GradientRingPlan::Piece& piece : plan.pieces_of(bucket)) {
      for (const float* const ring : rings) {
        for (std::int64_t i = 0; i < piece.elements; ++i)
          added[static_cast<std::size_t>(piece.offset + i)] += ring[piece.ring_offset + i];
      }
    }
    return true;
  }
};

int run_own_action(const RankPlace& place, std::size_t bucket_bytes) {
  Group group(place, {30, nullptr});
  const int ranks = place.world_size;
  OwnTape whole, ringed;
  std::vector<float> gradients(static_cast<std::size_t>(whole.layout.trained_elements));
  whole.seal(false, gradients.data());
  ringed.ring = plan_gradient_ring(ringed.graph, ringed.layout, bucket_bytes);
  const std::size_t stride = align_up(ringed.ring.bytes, kPage);
  SharedMemory memory = group.share(static_cast<std::size_t>(ranks) * stride);
  std::vector<float*> rings;
  for (int rank = 0; rank < ranks; ++rank)
    rings.push_back(static_cast<float*>(static_cast<void*>(memory.data() + static_cast<std::size_t>(rank) * stride)));
  float* const own = rings[static_cast<std::size_t>(place.rank)];
  ringed.seal(true, own);
  AddBuckets action(ringed.ring, rings, ringed.layout.trained_elements);
  GradientRing ring(ringed.ring, *ringed.tape, own, ranks > 1 ? &group : nullptr, action);
  Threads threads(2, false, &group.heart());
  std::vector<float> expected(gradients.size());
  for (int time = 0; time < 2; ++time) {
    Replay replay;
    const TestBatch batch = batch_of(place.rank, ranks + 1);
    replay.batch = batch.batch();
    if (!ring.replay(threads, replay)) return 1;
    for (int rank = 0; rank < ranks; ++rank) {  // what each rank's tape writes into a whole range
      const TestBatch other = batch_of(rank, ranks + 1);
      replay.batch = other.batch();
      whole.tape->replay(threads, replay);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += gradients[i];
    }
    if (!group.barrier()) return 2;
  }
  if (action.next != 2 * ringed.ring.buckets.size()) return 3;
  if (std::all_of(expected.begin(), expected.end(), [](float value) { return value == 0.0f; })) return 4;
  if (action.added != expected) return 5;
  return group.leave() ? 0 : 6;
}

TEST(GradientRingOfRanks, HandsEveryBucketToAnActionOfTheCallersAlsoOnOneRank) {
  for (const int ranks : {1, 2, 3}) {
    for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{1} << 17}) {
      const Ends ends = run_ranks(ranks, [&](const RankPlace& place) { return run_own_action(place, bucket_bytes); });
      EXPECT_EQ(ends, Ends(static_cast<std::size_t>(ranks), 0)) << ranks << " ranks, buckets of " << bucket_bytes;
    }
  }
}

TEST(GradientRingOfRanks, GivesTheBitsOfWholeRangesWhateverTheBuckets) {
  for (const int ranks : {2, 3, 4}) {
    for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{1} << 17, std::size_t{1} << 30}) {
      const Ends ends = run_ranks(ranks, [&](const RankPlace& place) { return run_rank(place, bucket_bytes); });
      EXPECT_EQ(ends, Ends(static_cast<std::size_t>(ranks), 0)) << ranks << " ranks, buckets of " << bucket_bytes;
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_gradient_ring
