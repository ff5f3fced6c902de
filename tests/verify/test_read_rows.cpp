// SPDX-License-Identifier: Apache-2.0
// The last layer of a model of texts computes only the rows that its heads read. Against the same model with all rows:
// equal losses, with dropout, and the same gradients up to the order of sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "src/graph/backward.h"
#include "src/models/families.h"
#include "src/session/packed_batch.h"
#include "src/session/parameter_values.h"
#include "src/session/session.h"

namespace bascule::test {
namespace {

struct Computed {
  std::vector<float> losses;
  std::map<std::string, std::vector<float>> gradients;
};

// Texts of 3, 9 and 1 tokens; the second has labels at its first, a middle and its last one, the others have none or
// all.
PaddedBatch some_texts(const ModelInputs& inputs) {
  const std::int64_t lengths[] = {3, 9, 1};
  PaddedBatch batch;
  batch.samples = 3;
  batch.texts[0].length = 9;
  const std::int64_t labels = inputs.reads_words ? inputs.classes : inputs.texts[0].vocabulary_size;
  for (std::int64_t s = 0; s < batch.samples; ++s) {
    for (std::int64_t t = 0; t < batch.texts[0].length; ++t) {
      const bool present = t < lengths[s], labelled = s == 2 || (s == 1 && t % 4 == 0);
      batch.texts[0].input_ids.push_back(present ? (7 * t + 11 * s + 1) % inputs.texts[0].vocabulary_size : 0);
      batch.texts[0].attention_mask.push_back(present ? 1 : 0);
      batch.texts[0].token_types.push_back(t > 4 ? 1 : 0);
      batch.texts[0].token_labels.push_back(present && labelled ? (5 * t + s) % labels : -100);
    }
    batch.labels.push_back(s % std::min<std::int64_t>(2, inputs.classes));
    batch.label_values.push_back(static_cast<float>(s) - 0.5f);
  }
  return batch;
}

Computed compute(const Model& model, bool every_row) {
  RecordOptions options;
  options.dropout = true;
  const Fields fields = model.fields(options);
  const ModelInputs inputs = model.inputs();
  const PackedBatch packed(some_texts(inputs), inputs, false, "here");
  Session session;
  Graph& graph = session.add_graph(packed.counts(fields), fields);
  const Recording recording = model.record(graph, every_row ? Use::kReference : Use::kTrain, options);
  derive_backward(graph);
  Threads threads(2, false);
  session.train({});
  session.seal_alone(kernels_for(best_isa()), 2);
  StartWork work;
  initialise_parameters(&work, session.parameter_memory(), 3);
  work.run(threads);
  Replay replay;
  replay.batch = packed.batch(fields);
  replay.dropout_key[0] = 5;
  session.tape(0).replay(threads, replay);
  Computed computed;
  for (const LossTerm& term : recording.losses) computed.losses.push_back(*session.tape(0).at(term.loss));
  const ParameterSet& set = session.parameters();
  for (int p = 0; p < set.size(); ++p) {
    const float* const first =
        session.training().gradients() + session.layout().places[static_cast<std::size_t>(p)].offset;
    for (const ParameterPiece& piece : set[p].pieces) {
      const float* const own = first + piece.first_element;
      computed.gradients[piece.name].assign(own, own + piece.elements);
    }
  }
  return computed;
}

TEST(ReadRows, HaveTheValuesThatTheyHaveAmongAllRows) {
  const Family& bert = **std::find_if(families().begin(), families().end(),
                                      [](const Family* family) { return family->model_type == std::string("bert"); });
  for (const std::unique_ptr<Model>& model : bert.small_models()) {
    if (model->inputs().texts_in_a_row > 1) continue;  // all rows are pooled
    const Computed read = compute(*model, false), all = compute(*model, true);
    EXPECT_EQ(read.losses, all.losses);
    ASSERT_EQ(read.gradients.size(), all.gradients.size());
    for (const auto& [name, gradient] : all.gradients) {
      const std::vector<float>& own = read.gradients.at(name);
      double difference = 0.0, length = 0.0;
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        difference += std::pow(static_cast<double>(own[i]) - static_cast<double>(gradient[i]), 2);
        length += std::pow(static_cast<double>(gradient[i]), 2);
      }
      // Gradients of key biases are zero in exact arithmetic.
      EXPECT_LE(std::sqrt(difference), 1e-5 * std::sqrt(length) + 1e-7) << name;
    }
  }
}

}  // namespace
}  // namespace bascule::test
