// SPDX-License-Identifier: Apache-2.0
// A batch in pieces of any size has the loss of the whole batch in every bit, and its gradients up to the order of
// sums.
#include "src/session/batch_pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/graph/backward.h"
#include "src/graph/element_types.h"
#include "src/models/families.h"
#include "src/session/packed_batch.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test::test_batch_pieces {
namespace {

constexpr std::int64_t kSamplesOfBatch = 7;

// Texts of 2 to 9 tokens, those of a sample of other lengths.
PaddedBatch some_texts(std::int64_t texts) {
  PaddedBatch batch;
  batch.samples = kSamplesOfBatch;
  batch.first_sample = 40;
  batch.texts[0].length = 9;
  for (std::int64_t text = 0; text < batch.samples * texts; ++text) {
    for (std::int64_t t = 0; t < 9; ++t) {
      const bool present = t < 2 + text * 5 % 8;
      batch.texts[0].input_ids.push_back(present ? (7 * t + 11 * text + 1) % 30 : 0);
      batch.texts[0].attention_mask.push_back(present ? 1 : 0);
    }
  }
  for (std::int64_t s = 0; s < batch.samples; ++s) batch.label_values.push_back(static_cast<float>(s % 3) * 0.4f);
  return batch;
}

// As a loader bounds it.
BatchCounts bounds_of(std::int64_t texts) {
  BatchCounts bounds;
  bounds[kSamples] = kSamplesOfBatch;
  bounds[kFirstModelStream] = kSamplesOfBatch * texts * 9;
  return bounds;
}

struct Step {
  float loss = 0.0f;
  std::vector<float> gradients;
};

struct Case {
  std::string family;
  Pooling pooling;
  bool normalize;
  EmbeddingLoss loss;
  std::int64_t texts;
};

std::unique_ptr<Model> open(const Case& c) {
  const std::string sizes =
      R"("hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20,
         "vocab_size": 30, "max_position_embeddings": 40, "dim": 24, "n_layers": 2, "n_heads": 3, "hidden_dim": 20})";
  const TemporaryFolder folder;
  ModelSource source;
  source.config_path = folder.write("config.json", "{\"model_type\": \"" + c.family + "\", " + sizes);
  source.pooling = c.pooling;
  source.normalize = c.normalize;
  source.loss = c.loss;
  source.texts_in_a_row = c.texts;
  return open_model(source, "sentence_embedding");
}

// The second of two micro-batches, which adds to what the first one left. piece: samples; 0: the whole batch at once.
Step compute(const Model& model, std::int64_t piece, Precision precision, int threads) {
  RecordOptions options;
  options.dropout = true;
  const Fields fields = model.fields(options);
  const PackedBatch packed(some_texts(model.inputs().texts_in_a_row), model.inputs(), false, "here");
  Session session;
  std::map<Use, RecordedGraph> graphs;
  if (piece > 0) {
    graphs = record_pieces(&session, model, fields, bounds_of(model.inputs().texts_in_a_row), piece, options,
                           precision == Precision::kBf16);
  } else {
    graphs[Use::kTrainLoss].number = 0;
    Graph& graph = session.add_graph(packed.counts(fields), fields);
    graphs[Use::kTrainLoss].recording = model.record(graph, Use::kTrain, options);
    derive_backward(graph);
    if (precision == Precision::kBf16) choose_element_types(graph);
  }
  session.train({});
  session.seal_alone(kernels_for(best_isa()), threads);
  Threads pool(threads, false);
  StartWork work;
  initialise_parameters(&work, session.parameter_memory(), 11);
  work.run(pool);
  Replay replay;
  replay.batch = packed.batch(fields);
  replay.loss_weights[0] = 0.5f;
  replay.dropout_key[0] = 5;
  std::unique_ptr<BatchPieces> pieces;
  struct alignas(kCacheLine) Line {
    std::byte bytes[kCacheLine];
  };
  std::vector<Line> memory;
  if (piece > 0) {
    memory.resize(divide_up(pieces_bytes(session, graphs), kCacheLine));
    pieces = std::make_unique<BatchPieces>(session, graphs, memory.front().bytes);
  }
  const RecordedGraph& of_loss = graphs[Use::kTrainLoss];
  Step step;
  for (std::uint32_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
    replay.add_to_gradients = micro_batch > 0;
    replay.dropout_key[1] = micro_batch;
    if (pieces) {
      pieces->find_loss(pool, replay);
      EXPECT_EQ(pieces->count(), divide_up(kSamplesOfBatch, piece));
    } else {
      session.tape(0).replay(pool, replay);
    }
    step.loss = *session.tape(of_loss.number).at(of_loss.recording.losses.front().loss);
    for (std::int64_t i = 0; pieces && i < pieces->count(); ++i) pieces->add_gradients(i, pool, replay);
  }
  const float* const gradients = session.training().gradients();
  step.gradients.assign(gradients, gradients + session.layout().trained_elements);
  return step;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2.0);
    norm += std::pow(static_cast<double>(b[i]), 2.0);
  }
  return std::sqrt(difference / norm);
}

TEST(BatchPieces, HaveTheLossOfTheWholeBatchAndItsGradients) {
  for (const Case& c : {Case{"bert", Pooling::kMean, true, EmbeddingLoss::kRanking, 3},
                        Case{"roberta", Pooling::kCls, false, EmbeddingLoss::kSymmetricRanking, 2},
                        Case{"distilbert", Pooling::kMax, false, EmbeddingLoss::kCosent, 2},
                        Case{"bert", Pooling::kCls, true, EmbeddingLoss::kCosineSimilarity, 2}}) {
    const std::unique_ptr<Model> model = open(c);
    for (const Precision precision : {Precision::kFloat32, Precision::kBf16}) {
      const Step whole = compute(*model, 0, precision, 2);
      for (const std::int64_t piece : {1, 3, 7}) {
        SCOPED_TRACE(c.family + ", pieces of " + std::to_string(piece));
        const Step step = compute(*model, piece, precision, 2);
        EXPECT_EQ(step.loss, whole.loss);
        EXPECT_LT(distance(step.gradients, whole.gradients), precision == Precision::kFloat32 ? 2e-6 : 2e-2);
        EXPECT_EQ(piece >= kSamplesOfBatch, step.gradients == whole.gradients);
        if (piece == 3) {
          EXPECT_EQ(step.gradients, compute(*model, piece, precision, 1).gradients);
        }
      }
    }
  }
}

TEST(BatchPieces, TakeTheMemoryOfOnePiece) {
  const std::unique_ptr<Model> model = open({"bert", Pooling::kMean, true, EmbeddingLoss::kRanking, 2});
  BatchCounts bounds;
  bounds[kSamples] = 64;
  bounds[kFirstModelStream] = 64 * 40;
  const BatchCounts piece = bounds_of_piece(bounds, 16);
  EXPECT_EQ(piece.samples(), 16);
  EXPECT_EQ(piece[kFirstModelStream], 16 * 40);
  const auto workspace = [&](std::int64_t samples, const BatchCounts& of_batch) {
    Session session;
    record_pieces(&session, *model, model->fields({}), of_batch, samples, {}, false);
    session.train({});
    session.plan(1);
    return std::max({session.workspace(0).bytes, session.workspace(1).bytes, session.workspace(2).bytes});
  };
  // Beside what the loss keeps of a batch, which is a few numbers of each sample.
  EXPECT_LT(workspace(16, bounds), workspace(16, piece) + workspace(16, piece) / 4);
  EXPECT_GT(workspace(64, bounds), 3 * workspace(16, bounds));
}

}  // namespace
}  // namespace bascule::test::test_batch_pieces
