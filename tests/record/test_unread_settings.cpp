// SPDX-License-Identifier: Apache-2.0
#include "src/record/run_inputs.h"

#include <gtest/gtest.h>

#include <string>

#include "src/record/opened_model.h"
#include "src/record/recorded_run.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

// What a BERT that learns masked words from this file says of its settings.
std::string ignored(const std::string& train_file, const std::string& data) {
  const TemporaryFolder folder;
  const std::string tests = BASCULE_TEST_DATA;
  folder.write("words.txt", "a b c\n\nd e f\n");
  folder.write("words.jsonl", "{\"words\": \"a b c\"}\n{\"words\": \"d e f\"}\n");
  const Settings settings = read_settings_text(
      "[model]\nmodel_name_or_path = \"" + tests + "/text-corpus/model\"\ntokenizer_name = \"" + tests +
          "/tokenizer/wordpiece\"\nfrom_scratch = true\nhead = \"masked_lm\"\n[data]\ntrain_file = \"" + train_file +
          "\"\nmax_seq_length = 16\n" + data + "[training]\noutput_dir = \"run\"\nmax_steps = 2\n",
      "test.toml", folder.path(), model_words);
  const auto run = record_run(settings, RankPlace{});
  return unread_settings(settings, run->opened, run->data.loader);
}

TEST(UnreadSettings, ATextCorpusHasNoColumns) {
  const std::string lines = "text_layout = \"lines\"\n";
  EXPECT_EQ(ignored("words.txt", lines), "");
  EXPECT_EQ(ignored("words.txt", lines + "text_column = \"words\"\n"),
            "settings: ignored: data.text_column (a text corpus has no columns)");
  EXPECT_EQ(ignored("words.jsonl", "text_column = \"words\"\n"), "");
}

TEST(UnreadSettings, DocumentsAndQueriesAreNoRows) {
  const TemporaryFolder folder;
  const std::string tests = BASCULE_TEST_DATA;
  folder.write("corpus.jsonl", "{\"_id\": \"d\", \"text\": \"a b\"}\n");
  folder.write("queries.jsonl", "{\"_id\": \"q\", \"text\": \"a\"}\n");
  folder.write("qrels.tsv", "query-id\tcorpus-id\tscore\nq\td\t1\n");
  const Settings settings = read_settings_text(
      "[model]\nmodel_name_or_path = \"" + tests + "/text-corpus/model\"\ntokenizer_name = \"" + tests +
          "/tokenizer/wordpiece\"\nfrom_scratch = true\nhead = \"sentence_embedding\"\n[data]\nvalidation_corpus = "
          "\"corpus.jsonl\"\nvalidation_queries = \"queries.jsonl\"\nvalidation_relevance = \"qrels.tsv\"\ntext_column "
          "= \"words\"\n[training]\noutput_dir = \"run\"\ndo_train = false\ndo_eval = true\n",
      "test.toml", folder.path(), model_words);
  const auto run = record_run(settings, RankPlace{});
  EXPECT_EQ(unread_settings(settings, run->opened, run->data.loader),
            "settings: ignored: data.text_column (documents and queries are no rows)");
}

TEST(UnreadSettings, RowsToEvaluateAreThoseOfAnEvaluation) {
  EXPECT_EQ(ignored("words.jsonl", "text_column = \"words\"\nmax_eval_samples = 3\n"),
            "settings: ignored: data.max_eval_samples (nothing is evaluated)");
}

TEST(UnreadSettings, AStoreIsOfRunsThatAreTracked) {
  const std::string rows = "text_column = \"words\"\n", store = "[report]\ntracking_dir = \"store\"\n";
  EXPECT_EQ(ignored("words.jsonl", rows + store),
            "settings: ignored: report.tracking_dir (report.tracking = \"none\")");
  EXPECT_EQ(ignored("words.jsonl", rows + store + "tracking = \"mlflow\"\n"), "");
}

}  // namespace
}  // namespace bascule::test
