// SPDX-License-Identifier: Apache-2.0
// A graph from recording to replay, without a model: parameters and inputs with random values, the plan of its
// workspace, its tape.
//
//   GraphRun run(bounds);
//   const Tensor x = run.source("x", text_rows(), 5);   // rows of the batch whose gradient is wanted: an input times a
//   trained matrix const Tensor y = activation(run.graph(), "y", x, Activation::kGelu); run.finish({y}); // the loss:
//   sum of y times a random cotangent run.replay(batch.batch()); run.gradient("x.weight");
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/graph/backward.h"
#include "src/graph/operations.h"
#include "src/plan/memory_plan.h"
#include "src/plan/workspace.h"
#include "src/runtime/arena.h"
#include "src/runtime/tape.h"
#include "tests/support/seeded.h"

namespace bascule::test {

// Streams and fields of the batches here.
inline constexpr int kText = kFirstModelStream, kSelected = kFirstModelStream + 1;
constexpr Extent text_rows() { return rows_of_stream(kText); }
constexpr BatchCounts counts_of(std::int64_t samples, std::int64_t text, std::int64_t selected) {
  BatchCounts counts;
  counts[kSamples] = samples;
  counts[kText] = text;
  counts[kSelected] = selected;
  return counts;
}
// Pixels and image row keys of as many elements and rows as a test's batches have.
Fields batch_fields();

// A batch of packed captions with everything that an operation may read.
struct TestBatch {
  // Captions of these lengths; ids below `vocabulary`, positions from 2 on. selected: every `select_every`-th text row,
  // from the second on.
  TestBatch(Seeded& random, const std::vector<std::int64_t>& lengths, std::int64_t vocabulary,
            std::int64_t select_every = 2);
  // With these fields, by their sources.
  Batch batch(const Fields& fields = batch_fields()) const;
  // Pictures of `elements` random values a sample, and keys of `rows` image rows.
  void add_pictures(Seeded& random, std::int64_t elements, std::int64_t rows);
  std::int64_t samples() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  std::int64_t text_rows() const { return offsets.back(); }

  std::vector<std::int32_t> ids, positions, types, offsets, selected, labels;
  std::vector<std::uint64_t> text_keys, sample_keys, image_keys;
  std::vector<float> pixels;
};

class GraphRun {
 public:
  explicit GraphRun(const BatchCounts& bounds, int threads = 2, Fields fields = batch_fields())
      : random_(7), graph_(parameters_, bounds, std::move(fields)), thread_count_(threads) {}

  Graph& graph() { return graph_; }
  ParameterSet& parameters() { return parameters_; }
  const ParameterLayout& layout() const { return layout_; }
  Seeded& random() { return random_; }
  Tensor field(const char* name) { return graph_.field(name); }
  SampleRows text() { return {text_rows(), field("text_offsets"), field("text_row_keys")}; }
  SampleRows pictures(std::int64_t rows) { return {rows_per_sample(rows), {}, field("image_row_keys")}; }
  SampleRows first_of_samples() { return {rows_per_sample(1), {}, field("sample_keys")}; }
  Tensor parameter(const std::string& name, std::int64_t rows, std::int64_t cols, bool trained = true,
                   bool decayed = true);
  Tensor input(const std::string& name, Extent rows, std::int64_t cols);
  // input (rows, kSourceWidth) times a trained weight (cols, kSourceWidth): "NAME.input", "NAME.weight".
  static constexpr std::int64_t kSourceWidth = 7;
  Tensor source(const std::string& name, Extent rows, std::int64_t cols);

  // Backward, plan, tape, random values for parameters and inputs. outputs: those whose sum of products with random
  // cotangents is the loss; empty where the graph has a loss of its own.
  void finish(const std::vector<Tensor>& outputs, const KernelTable& kernels = kernels_for(best_isa()));
  // The same for a graph whose loss and backward are recorded already.
  // activations_in_gradients: they may lie where no gradient is written yet, so gradients may not be added to.
  void seal(const KernelTable& kernels, bool activations_in_gradients = false);
  // second_weight: that of the second term of the loss.
  void replay(const Batch& batch, float loss_weight = 1.0f, bool add_to_gradients = false,
              std::uint32_t dropout_step = 0, float second_weight = 1.0f);

  // Of the next replays.
  void set_peers(const Peers& peers) { peers_ = peers; }

  Tensor loss() const { return loss_; }
  const Tape& tape() const { return *tape_; }
  float* at(Tensor tensor) { return tape_->at(tensor); }
  const std::int32_t* at_int32(Tensor tensor) { return tape_->at_int32(tensor); }
  // All values of a parameter or an input.
  std::vector<float> values(const std::string& name);
  void set_values(const std::string& name, const std::vector<float>& values);
  std::vector<float> gradient(const std::string& name);
  std::vector<float> all_gradients() const;
  std::vector<float> rows_of(Tensor tensor, std::int64_t rows) {
    return {at(tensor), at(tensor) + rows * graph_[tensor].cols};
  }

 private:
  // Where a parameter (or its gradient) or the values of an input lie, and how many elements they are.
  std::pair<float*, std::int64_t> memory_of(const std::string& name, bool gradient);

  Seeded random_;
  ParameterSet parameters_;
  Graph graph_;
  int thread_count_;
  ParameterLayout layout_;
  Tensor loss_;
  Peers peers_;
  std::vector<Tensor> inputs_;
  std::vector<std::vector<float>>
      input_values_;  // copied in before each replay: an input's place is another's after its last use
  TapeMemory memory_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Threads> threads_;
  std::unique_ptr<GemmLibrary> products_;
  std::unique_ptr<Tape> tape_;
};

// A weight of normal values.
inline Tensor normal_weight(Graph& graph, const std::string& name, std::int64_t rows, std::int64_t cols,
                            bool trained = false) {
  Parameter p;
  p.name = name;
  p.rows = rows;
  p.cols = cols;
  p.trained = trained;
  p.pieces = {{name, {rows, cols}, 0, rows * cols, {0.0f, 0.5f}}};
  return graph.parameter(p);
}

}  // namespace bascule::test
