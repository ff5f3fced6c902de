// SPDX-License-Identifier: Apache-2.0
#include "src/run/recorded_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "src/graph/element_types.h"
#include "src/run/model_words.h"
#include "tests/support/reference_dir.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

// The demo's model and data; as `bascule plan` records it. Nothing is allocated, and no picture is read.
class Recorded {
 public:
  // Lines of [model] and [training].
  Recorded(const std::string& model, const std::string& training) {
    const std::string data = reference_dir() + "/emoji-captions";
    settings_ = read_settings_text("[model]\nmodel_name_or_path = \"" + data + "/model\"\ntokenizer_name = \"" + data +
                                       "/tokenizer\"\nfrom_scratch = true\n" + model + "[data]\ntrain_file = \"" +
                                       data + "/train.jsonl\"\nvalidation_file = \"" + data +
                                       "/validation.jsonl\"\nmax_seq_length = 16\n[training]\noutput_dir = \"" +
                                       folder_.path() + "/run\"\nper_device_train_batch_size = 8\n" + training,
                                   "test.toml", folder_.path(), model_words);
    run_ = record_run(settings_, RankPlace{});
  }
  RecordedRun& operator*() { return *run_; }
  RecordedRun* operator->() { return run_.get(); }

 private:
  TemporaryFolder folder_;
  Settings settings_;
  std::unique_ptr<RecordedRun> run_;
};

TEST(RecordedRun, APartOfAnEpochIsRoundedUpToWholeUpdates) {
  TrainingLength length;
  length.updates_per_epoch = 7;
  EXPECT_EQ(updates_of_epochs(length, 1.3), 10);  // 9.1
  EXPECT_EQ(updates_of_epochs(length, 2.0), 14);
  EXPECT_EQ(updates_of_epochs(length, 0.001), 1);
  Recorded run("", "num_train_epochs = 0.013\n");  // of 198 updates: 2.6
  EXPECT_EQ(run->pace.length.total_updates, 3);
}

TEST(RecordedRun, EvaluationsComputeInThePrecisionOfTraining) {
  for (const bool is_bf16 : {false, true}) {
    Recorded run(is_bf16 ? "precision = \"bf16\"\n" : "", "max_steps = 3\n");
    EXPECT_EQ(has_bf16_products(run->session.graph(run->graphs[Use::kTrain].number)), is_bf16);
    EXPECT_EQ(has_bf16_products(run->session.graph(run->graphs[Use::kEvaluate].number)), is_bf16);
  }
}

TEST(RecordedRun, TheLineOfThePlanHasTheShareOfRecomputedOperations) {
  Recorded run("", "max_steps = 3\ngradient_checkpointing = \"full\"\n");
  const Graph& graph = run->session.graph(run->graphs[Use::kTrain].number);
  double step = 0.0, repeated = 0.0;
  for (const Node& node : graph.nodes()) (node.again ? repeated : step) += cost_of(graph, node, graph.bounds()).flops;
  char share[64];
  std::snprintf(share, sizeof share, " GFLOP a step, %.2f %% of its operations", 100.0 * repeated / step);
  const auto has_share = [&](const std::string& note) {
    return note.rfind("plan: recomputed in ", 0) == 0 && note.find(share) != std::string::npos;
  };
  EXPECT_GT(repeated, 0.0);
  EXPECT_EQ(std::count_if(run->notes.begin(), run->notes.end(), has_share), 1) << share;
}

}  // namespace
}  // namespace bascule::test
