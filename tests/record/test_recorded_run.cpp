// SPDX-License-Identifier: Apache-2.0
#include "src/record/recorded_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "src/graph/element_types.h"
#include "tests/record/demo_run.h"

namespace bascule::test {
namespace {

TEST(RecordedRun, APartOfAnEpochIsRoundedUpToWholeUpdates) {
  TrainingLength length;
  length.updates_per_epoch = 7;
  EXPECT_EQ(updates_of_epochs(length, 1.3), 10);  // 9.1
  EXPECT_EQ(updates_of_epochs(length, 2.0), 14);
  EXPECT_EQ(updates_of_epochs(length, 0.001), 1);
  DemoRun run("", "num_train_epochs = 0.013\n");  // of 198 updates: 2.6
  EXPECT_EQ(run->pace.length.total_updates, 3);
}

TEST(RecordedRun, EvaluationsComputeInThePrecisionOfTraining) {
  for (const bool is_bf16 : {false, true}) {
    DemoRun run(is_bf16 ? "precision = \"bf16\"\n" : "", "max_steps = 3\n");
    EXPECT_EQ(has_bf16_products(run->session.graph(run->graphs[Use::kTrain].number)), is_bf16);
    EXPECT_EQ(has_bf16_products(run->session.graph(run->graphs[Use::kEvaluate].number)), is_bf16);
  }
}

TEST(RecordedRun, TheRestOfAnEpochIsDroppedInTrainingAlone) {
  for (const bool drops : {false, true}) {
    DemoRun run("", "max_steps = 3\n", drops ? "dataloader_drop_last = true\n" : "");
    const std::vector<StreamSettings>& streams = run->data.loader.streams;
    EXPECT_EQ(streams[run->data.find(Split::kTrain)->stream].drop_last, drops);
    EXPECT_FALSE(streams[run->data.find(Split::kValidation)->stream].drop_last);
  }
}

// A T5 that writes keywords for names, with these lines of [generation].
SearchOptions search_of(const std::string& generation) {
  const TemporaryFolder folder;
  const std::string data = BASCULE_TEST_DATA;
  const Settings settings = read_settings_text(
      "[model]\nmodel_name_or_path = \"" + data + "/emoji-keywords/model\"\ntokenizer_name = \"" + data +
          "/tokenizer/unigram\"\nfrom_scratch = true\n[data]\nvalidation_file = \"" + data +
          "/emoji-keywords/validation.jsonl\"\ntext_column = \"text\"\nsummary_column = \"summary\"\n"
          "max_source_length = 32\nmax_target_length = 12\n[training]\noutput_dir = \"" +
          folder.path() + "/run\"\npredict_with_generate = true\n[generation]\n" + generation,
      "test.toml", folder.path(), model_words);
  return record_run(settings, RankPlace{})->graphs.texts->options;
}

TEST(RecordedRun, TextsAreSearchedForAsTheSettingsSay) {
  const SearchOptions defaults = search_of("");
  EXPECT_EQ(defaults.num_beams, 1);
  EXPECT_EQ(defaults.max_length, 12) << "data.max_target_length";
  EXPECT_EQ(defaults.min_length, 0);
  EXPECT_EQ(defaults.length_penalty, 1.0);
  EXPECT_EQ(defaults.early_stopping, EarlyStopping::kNo);
  EXPECT_EQ(defaults.no_repeat_ngram_size, 0);
  const SearchOptions options = search_of(
      "num_beams = 3\nmax_length = 9\nmin_length = 5\nlength_penalty = 2.5\nearly_stopping = \"never\"\n"
      "no_repeat_ngram_size = 2\n");
  EXPECT_EQ(options.num_beams, 3);
  EXPECT_EQ(options.max_length, 9);
  EXPECT_EQ(options.min_length, 5);
  EXPECT_EQ(options.length_penalty, 2.5);
  EXPECT_EQ(options.early_stopping, EarlyStopping::kNever);
  EXPECT_EQ(options.no_repeat_ngram_size, 2);
  EXPECT_EQ(search_of("min_length = 5\nmin_new_tokens = 2\n").min_length, 3);
  EXPECT_EQ(search_of("min_length = 5\nmin_new_tokens = 8\n").min_length, 9);
  EXPECT_EQ(search_of("min_length = 5\nmin_new_tokens = 0\n").min_length, 5);
}

TEST(RecordedRun, TheLineOfThePlanHasTheShareOfRecomputedOperations) {
  DemoRun run("", "max_steps = 3\ngradient_checkpointing = \"full\"\n");
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

// A run for which the search for what to recompute takes more memory to be needed than the plan places.
TEST(RecordedRun, NothingIsRecomputedWhereThePlanFitsToTheByte) {
  const auto tiny_run = [](const std::string& checkpointing, const std::string& machine = "") {
    return DemoRun("",
                   "max_steps = 3\ngradient_accumulation_steps = 2\ngradient_checkpointing = \"" + checkpointing +
                       "\"\n" + machine,
                   "", std::string(BASCULE_TEST_DATA) + "/emoji-captions/tiny_model");
  };
  DemoRun whole = tiny_run("off");
  for (const std::size_t missing : {0u, 1u}) {
    char limit[80];
    std::snprintf(limit, sizeof limit, "[machine]\nmemory_limit_gib = %.17g\n",
                  static_cast<double>(whole->plan.peak_bytes() - missing) / (1 << 30));
    DemoRun fitting = tiny_run("fit", limit);
    EXPECT_EQ(fitting->recomputation.layers > 0, missing > 0);
  }
}

TEST(RecordedRun, RanksOfAMachineShareTheMappingOfACorpus) {
  const TemporaryFolder folder;
  const std::string data = BASCULE_TEST_DATA;
  const Settings settings = read_settings_text(
      "[model]\nmodel_name_or_path = \"" + data + "/text-corpus/model\"\ntokenizer_name = \"" + data +
          "/tokenizer/wordpiece\"\nhead = \"masked_lm\"\nfrom_scratch = true\n[data]\ntrain_file = \"" +
          folder.write("train.txt", "the cat is here\nthe cat is there\n\nhere is the cat\n") +
          "\"\ntext_layout = \"lines\"\nmax_seq_length = 8\n[training]\noutput_dir = \"run\"\nmax_steps = "
          "2\nper_device_train_batch_size = 1\n",
      "test.toml", folder.path(), model_words);
  RankPlace half;
  half.world_size = half.local_size = 2;
  const auto alone = record_run(settings, RankPlace{}), of_two = record_run(settings, half);
  const std::size_t mapped = alone->data.splits.front().corpus->mapped_bytes();
  EXPECT_GT(mapped, 1u);
  EXPECT_EQ(alone->plan.index_bytes - of_two->plan.index_bytes, mapped / 2);
}

}  // namespace
}  // namespace bascule::test
