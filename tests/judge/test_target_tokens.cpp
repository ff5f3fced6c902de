// SPDX-License-Identifier: Apache-2.0
// Figures and files of generated texts, from hand-made batches of which one row is left out.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/answer/report.h"
#include "src/json/json.h"
#include "src/judge/judge.h"
#include "tests/support/files.h"
#include "tests/support/own_products.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

constexpr int kLabelled = kFirstModelStream;
constexpr std::int64_t kMostIds = 8, kBatch = 2;
constexpr std::int32_t kPad = 0, kEnd = 1;

// Id n is the n-th word; the first two are no text.
class Words final : public TokenDecoder {
 public:
  explicit Words(std::vector<std::string> words) : TokenDecoder(12), words_(std::move(words)) {}
  std::size_t decode_into(Span<const std::int32_t> ids, Span<char> text) const noexcept override {
    std::size_t bytes = 0;
    for (const std::int32_t id : ids) {
      const std::string& word = words_[static_cast<std::size_t>(id)];
      if (word.empty()) continue;
      for (const char c : (bytes > 0 ? " " : "") + word) {
        if (bytes < text.size()) text[bytes] = c;
        ++bytes;
      }
    }
    return bytes;
  }

 private:
  std::vector<std::string> words_;
};

const std::vector<std::string> kWords = {"", "", "red", "heart.", "cat", "sleeps", "dog", "heart!", "heart?", "heart,"};

// Rows: source and target. Row 2 is never taken.
constexpr char kRows[] =
    R"({"text": "a", "summary": "red heart"}
{"text": "b", "summary": "cat sleeps\nred heart"}
{"text": "c", "summary": "left out"}
{"text": "d", "summary": "dog"}
)";

struct Judged {
  explicit Judged(bool generates = true, bool keeps = true, const std::string& rows = kRows) : decoder(kWords) {
    ManifestColumns columns;
    columns.image = "";
    columns.text = "text";
    columns.second_text = "summary";
    manifest = std::make_unique<Manifest>(Manifest::load(folder.write("rows.jsonl", rows), columns));
    JudgeShape shape;
    shape.max_rows = manifest->rows();
    shape.batch = kBatch;
    shape.predicted_rows = keeps ? manifest->rows() : 0;
    shape.losses = {{"loss", kLabelled}};
    if (generates) {
      shape.decoder = &decoder;
      shape.pad_id = kPad;
      shape.longest_reference_bytes = manifest->longest_text_bytes();
    }
    shape.outputs = outputs(generates);
    judge = judge_named("target_tokens").make(shape);
    memory.reset(std::aligned_alloc(64, judge->bytes()));
    own.reset(std::aligned_alloc(64, judge->own_bytes() + 64));
    std::memset(memory.get(), 0xff, judge->bytes());  // figures of rows that nothing wrote are no numbers
    judge->seal(static_cast<std::byte*>(memory.get()), static_cast<std::byte*>(own.get()), outputs(generates),
                products);
    judge->begin(manifest->rows(), keeps);
  }

  std::vector<JudgedOutput> outputs(bool generates) const {
    std::vector<JudgedOutput> all = {{"loss", 1, &loss}, {"hits", 1, hits}};
    if (!generates) return all;
    all.push_back({"generated", kMostIds, ids});
    all.push_back({"generated_counts", 1, counts});
    all.push_back({"generated_scores", 1, scores});
    return all;
  }

  void take(std::int64_t index, const std::vector<std::int64_t>& rows,
            const std::vector<std::vector<std::int32_t>>& texts) {
    for (std::size_t s = 0; s < texts.size(); ++s) {
      std::copy(texts[s].begin(), texts[s].end(), ids + static_cast<std::int64_t>(s) * kMostIds);
      counts[s] = static_cast<std::int32_t>(texts[s].size());
      scores[s] = 0.5f * static_cast<float>(rows[s]);
    }
    Batch batch;
    batch.counts[kSamples] = static_cast<std::int64_t>(rows.size());
    batch.counts[kLabelled] = 2;
    batch.first_position = index * kBatch;
    batch.positions = kBatch;
    batch.rows = batch.rows_of_texts = rows.data();
    judge->take(batch, *manifest);
  }
  void take_all() {
    take(1, {3}, {{4, kEnd}});
    take(0, {0, 1}, {{2, 3, kPad, kEnd}, {2, 3, 4, 5, kEnd}});
  }
  EvaluationRecord finish() {
    EvaluationRecord record;
    judge->finish(threads, &record);
    return record;
  }
  double metric(const EvaluationRecord& record, const std::string& key) {
    for (const Metric& one : judge_named("target_tokens").metrics) {
      if (one.key == key) return record[one];
    }
    ADD_FAILURE() << key;
    return 0.0;
  }

  struct Free {
    void operator()(void* block) const { std::free(block); }
  };
  TemporaryFolder folder;
  Words decoder;
  std::unique_ptr<Manifest> manifest;
  OwnProducts products{1};
  Threads threads{1, false};
  std::unique_ptr<void, Free> memory, own;
  std::unique_ptr<Judge> judge;
  float loss = 1.5f;
  std::int32_t hits[2] = {1, 0};
  std::int32_t ids[kBatch * kMostIds] = {}, counts[kBatch] = {};
  float scores[kBatch] = {};
};

// By hand: row 0 is its target; row 1 has its words in another order, line by line all of them; row 3 has none.
TEST(TargetTokens, FiguresOfTextsAreMeansOverTheRowsJudged) {
  Judged judged;
  judged.take_all();
  const EvaluationRecord record = judged.finish();
  EXPECT_EQ(record.samples, 3);
  EXPECT_DOUBLE_EQ(judged.metric(record, "rouge1"), 100.0 * (1.0 + 1.0 + 0.0) / 3.0);
  EXPECT_DOUBLE_EQ(judged.metric(record, "rouge2"), 100.0 * (1.0 + 2.0 / 3.0 + 0.0) / 3.0);
  EXPECT_DOUBLE_EQ(judged.metric(record, "rougeL"), 100.0 * (1.0 + 0.5 + 0.0) / 3.0);
  EXPECT_DOUBLE_EQ(judged.metric(record, "rougeLsum"), 100.0 * (1.0 + 1.0 + 0.0) / 3.0);
  EXPECT_DOUBLE_EQ(judged.metric(record, "gen_len"), (3.0 + 5.0 + 2.0) / 3.0);  // without the padding of row 0
  EXPECT_DOUBLE_EQ(judged.metric(record, "accuracy"), 0.5);
}

TEST(TargetTokens, FilesHoldTheTextOfEveryRowJudged) {
  Judged judged;
  judged.take_all();
  judged.finish();
  Report report;
  judged.judge->write_files({judged.folder.path(), Split::kTest, *judged.manifest, {}, {}}, &report);
  EXPECT_STREQ(judged.judge->file(), "predictions.jsonl");
  const std::string lines = read_file(judged.folder.path() + "/predictions.jsonl");
  EXPECT_EQ(
      lines,
      "{\"row\": 0, \"text\": \"a\", \"summary\": \"red heart\", \"generated\": \"red heart.\", \"tokens\": 3, "
      "\"score\": 0}\n"
      "{\"row\": 1, \"text\": \"b\", \"summary\": \"cat sleeps\\u000ared heart\", \"generated\": \"red heart. cat "
      "sleeps\", \"tokens\": 5, \"score\": 0.5}\n"
      "{\"row\": 3, \"text\": \"d\", \"summary\": \"dog\", \"generated\": \"cat\", \"tokens\": 2, \"score\": "
      "1.5}\n");
  EXPECT_EQ(read_file(judged.folder.path() + "/generated_predictions.txt"), "red heart.\nred heart. cat sleeps\ncat\n");
  EXPECT_GE(judged.judge->file_bytes(static_cast<std::int64_t>(sizeof kRows)), static_cast<std::int64_t>(lines.size()));
  ASSERT_EQ(report.text_examples.size(), 3u);
  EXPECT_EQ(report.text_examples[0].generated, "red heart.");
  EXPECT_EQ(report.text_examples[2].reference, "dog");
  EXPECT_DOUBLE_EQ(report.text_examples[1].rouge[2], 50.0);
}

// Line by line, both halves of the target are found in other lines of the text; as one line, only one half is.
TEST(TargetTokens, TextsAreSplitIntoSentencesBehindTheirLastSigns) {
  for (const auto& [heart, figure] : {std::make_pair(3, 100.0), {7, 100.0}, {8, 100.0}, {9, 50.0}}) {
    Judged judged(true, true, "{\"text\": \"a\", \"summary\": \"cat sleeps red heart\"}\n");
    judged.take(0, {0}, {{2, heart, 4, 5, kEnd}});
    EXPECT_DOUBLE_EQ(judged.metric(judged.finish(), "rougeLsum"), figure) << kWords[static_cast<std::size_t>(heart)];
  }
}

// Every text is "cat"; the more other words the target has, the worse it is.
TEST(TargetTokens, TheReportShowsTheBestAndTheWorstOfManyTexts) {
  for (const std::int64_t count : {16, 17, 20}) {
    std::vector<std::string> best_first(static_cast<std::size_t>(count));
    std::string rows;
    for (std::int64_t row = 0; row < count; ++row) {
      const std::int64_t others = row * 7 % count;
      std::string target = "cat";
      for (std::int64_t i = 0; i < others; ++i) target += " other";
      best_first[static_cast<std::size_t>(others)] = target;
      rows += R"({"text": "a", "summary": ")" + target + "\"}\n";
    }
    Judged judged(true, true, rows);
    for (std::int64_t row = 0; row < count; ++row) {
      if (row % kBatch == 0 && row + 1 < count)
        judged.take(row / kBatch, {row, row + 1}, {{4, kEnd}, {4, kEnd}});
      else if (row % kBatch == 0)
        judged.take(row / kBatch, {row}, {{4, kEnd}});
    }
    judged.finish();
    Report report;
    judged.judge->write_files({judged.folder.path(), Split::kTest, *judged.manifest, {}, {}}, &report);
    best_first.erase(best_first.begin() + 8, best_first.end() - 8);
    std::vector<std::string> shown;
    for (const TextExample& example : report.text_examples) shown.push_back(example.reference);
    EXPECT_EQ(shown, best_first) << count;
  }
}

TEST(TargetTokens, NothingIsSaidOfTextsThatWereNotGenerated) {
  for (const bool generates : {false, true}) {
    Judged judged(generates);
    judged.take(0, {0, 1}, {});
    judged.counts[0] = judged.counts[1] = -1;
    judged.take(1, {3}, {});
    if (generates) judged.take(0, {0, 1}, {});
    const EvaluationRecord record = judged.finish();
    EXPECT_TRUE(std::isnan(judged.metric(record, "rouge1")));
    EXPECT_TRUE(std::isnan(judged.metric(record, "gen_len")));
    EXPECT_DOUBLE_EQ(judged.metric(record, "accuracy"), 0.5);
    Report report;
    judged.judge->write_files({judged.folder.path(), Split::kTest, *judged.manifest, {}, {}}, &report);
    EXPECT_TRUE(report.text_examples.empty());
    EXPECT_EQ(judged.judge->file(), std::string(generates ? "predictions.jsonl" : ""));
  }
}

}  // namespace
}  // namespace bascule::test
