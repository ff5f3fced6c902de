// SPDX-License-Identifier: Apache-2.0
// Figures of tags beside those of seqeval (tests/data/entities.json), and what people are told of rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "src/base/span.h"
#include "src/json/json.h"
#include "src/judge/entities.h"
#include "src/judge/judge.h"
#include "src/runtime/threads.h"
#include "tests/judge/metric_of.h"
#include "tests/support/own_products.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

constexpr std::int64_t kRowsOfBatch = 2, kMostTokens = 16;
constexpr int kTagged = kFirstModelStream;
const Fields kFields = {{"text_offsets", DType::kInt32, {}, 1, FieldSource::kTextOffsets},
                        {"labelled_rows", DType::kInt32, {}, 1, FieldSource::kLabelledRows},
                        {"labels", DType::kInt32, {}, 1, FieldSource::kTokenLabels},
                        {"label_words", DType::kInt32, {}, 1, FieldSource::kLabelledWords}};

std::vector<std::int32_t> tags_of(const std::string& letters) {
  std::vector<std::int32_t> tags;
  for (const char letter : letters) tags.push_back(letter - 'a');
  return tags;
}

// Rows with a token between special ones for each letter; a token is a word.
class TagJudging {
 public:
  TagJudging(const std::vector<std::string>& names, std::vector<std::string> labelled,
             std::vector<std::string> predicted)
      : names_(names), labelled_(std::move(labelled)), predicted_(std::move(predicted)), products_(1) {
    std::string rows;
    for (const std::string& row : labelled_) {
      Json words = Json::array(), tags = Json::array();
      for (const char letter : row) {
        words.push_back(std::string("w") + letter);
        tags.push_back(names[static_cast<std::size_t>(letter - 'a')]);
      }
      rows += json_text({{"tokens", words}, {"tags", tags}}) + "\n";
    }
    ManifestColumns columns{"", "tokens", "tags", kMostClasses};
    columns.named_classes = columns.words = true;
    manifest_ = std::make_unique<Manifest>(Manifest::load(folder_.write("rows.jsonl", rows), columns));
    std::vector<std::int32_t> numbers;
    for (const std::string& name : manifest_->class_names()) {
      numbers.push_back(static_cast<std::int32_t>(std::find(names.begin(), names.end(), name) - names.begin()));
    }
    manifest_->set_classes(std::move(numbers));
    JudgeShape shape;
    shape.max_rows = shape.predicted_rows = manifest_->rows();
    shape.batch = kRowsOfBatch;
    shape.losses = {{"loss", kTagged}};
    shape.fields = kFields;
    shape.classes = names;
    shape.counted_of_a_row = kMostTokens;
    shape.outputs = outputs();
    judge_ = judge_named("token_tags").make(shape);
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kCacheLine, judge_->bytes())));
    judge_->seal(memory_.get(), nullptr, outputs(), products_);
    judge_->begin(manifest_->rows(), true);
  }

  // left_out: a row that is in no batch; -1: none.
  EvaluationRecord judge(std::int64_t left_out = -1) {
    const std::int64_t rows = manifest_->rows();
    for (std::int64_t first = (rows - 1) / kRowsOfBatch * kRowsOfBatch; first >= 0; first -= kRowsOfBatch) {
      std::vector<std::int64_t> batch;
      for (std::int64_t row = first; row < std::min(rows, first + kRowsOfBatch); ++row) {
        if (row != left_out) batch.push_back(row);
      }
      take(first, batch);
    }
    Threads threads(1, false);
    EvaluationRecord record;
    judge_->finish(threads, &record);
    return record;
  }

  std::vector<Json> predictions(Report* report) const {
    judge_->write_files({folder_.path(), Split::kTest, *manifest_, {}, names_}, report);
    std::ifstream lines(folder_.path() + "/predictions.jsonl");
    std::vector<Json> rows;
    for (std::string line; std::getline(lines, line);) rows.push_back(parse_json(line, "predictions"));
    return rows;
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::vector<JudgedOutput> outputs() const {
    return {{"loss", 1, &loss_}, {"logits", static_cast<std::int64_t>(names_.size()), logits_}, {"hits", 1, hits_}};
  }

  void take(std::int64_t first, const std::vector<std::int64_t>& rows) {
    std::vector<std::int32_t> offsets = {0}, tagged, labels, words;
    for (const std::int64_t row : rows) {
      const std::vector<std::int32_t> own = tags_of(labelled_[static_cast<std::size_t>(row)]),
                                      guessed = tags_of(predicted_[static_cast<std::size_t>(row)]);
      for (std::size_t i = 0; i < own.size(); ++i) {
        const std::size_t token = labels.size();
        hits_[token] = own[i] == guessed[i] ? 1 : 0;
        for (std::size_t c = 0; c < names_.size(); ++c)
          logits_[token * names_.size() + c] = static_cast<std::int32_t>(c) == guessed[i] ? 1.0f : 0.0f;
        tagged.push_back(offsets.back() + 1 + static_cast<std::int32_t>(i));
        labels.push_back(own[i]);
        words.push_back(static_cast<std::int32_t>(i));
      }
      offsets.push_back(offsets.back() + static_cast<std::int32_t>(own.size()) + 2);
    }
    Batch batch;
    batch.counts[kSamples] = static_cast<std::int64_t>(rows.size());
    batch.counts[kTagged] = static_cast<std::int64_t>(labels.size());
    batch.first_position = first;
    batch.positions = std::min(kRowsOfBatch, manifest_->rows() - first);
    batch.rows = batch.rows_of_texts = rows.data();
    const void* const fields[] = {offsets.data(), tagged.data(), labels.data(), words.data()};
    std::copy(std::begin(fields), std::end(fields), batch.fields);
    judge_->take(batch, *manifest_);
  }

  const std::vector<std::string> names_, labelled_, predicted_;
  TemporaryFolder folder_;
  std::unique_ptr<Manifest> manifest_;
  OwnProducts products_;
  float loss_ = 0.5f, logits_[1024] = {};
  std::int32_t hits_[128] = {};
  std::unique_ptr<std::byte, Free> memory_;
  std::unique_ptr<Judge> judge_;
};

std::vector<std::string> texts_of(const Json& list) {
  std::vector<std::string> texts;
  for (const Json& text : list) texts.push_back(text.string());
  return texts;
}

TEST(TokenTags, HaveTheFiguresOfSeqeval) {
  const Json document = read_json_file(std::string(BASCULE_TEST_DATA) + "/entities.json");
  ASSERT_EQ(document["results"].size(), 200u);
  for (const Json& result : document["results"]) {
    std::vector<std::string> labelled = texts_of(result["labelled"]), predicted = texts_of(result["predicted"]);
    const std::size_t extra = labelled.size() / 2;  // a row that is left out counts nowhere
    labelled.insert(labelled.begin() + static_cast<std::ptrdiff_t>(extra), "a");
    predicted.insert(predicted.begin() + static_cast<std::ptrdiff_t>(extra), "b");
    const Json& tags = document["schemes"][static_cast<std::size_t>(result["tags"].integer())];
    TagJudging judging(texts_of(tags), labelled, predicted);
    const EvaluationRecord record = judging.judge(static_cast<std::int64_t>(extra));
    EXPECT_EQ(record.samples, static_cast<std::int64_t>(labelled.size()) - 1);
    for (std::size_t i = 0; i < result["figures"].size(); ++i) {
      const std::string& key = document["figures"][i].string();
      EXPECT_NEAR(record[metric_of("token_tags", key)], result["figures"][i].number(), 1e-12)
          << key << " " << json_text(result);
    }
  }
}

// "X" begins no entity, and a tag of another type ends one: seqeval 1.2.2 takes its begin from the row before, where
// labels and predictions differ.
TEST(TokenTags, AnEntityThatBeginsInAnEarlierRowIsRightWhereItsBeginIs) {
  const std::vector<std::string> names = {"X", "S", "NOUN-a", "O"};
  const Metric &precision = metric_of("token_tags", "precision"), &accuracy = metric_of("token_tags", "accuracy");
  const EvaluationRecord wrong = TagJudging(names, {"bd", "ac"}, {"db", "ac"}).judge();
  EXPECT_NEAR(wrong[precision], 1.0 / 3.0, 1e-12);
  EXPECT_EQ(wrong[accuracy], 0.5);
  EXPECT_EQ(TagJudging(names, {"bd", "ac"}, {"bd", "ac"}).judge()[precision], 1.0);
}

TEST(TokenTags, LeavePredictionsAndTheWorstRows) {
  TagJudging judging({"B-PER", "I-PER", "O"}, {"cab", "cc", "abca"}, {"cab", "ac", "abcb"});
  judging.judge();
  Report report;
  const std::vector<Json> rows = judging.predictions(&report);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1]["row"], 1);
  EXPECT_EQ(json_text(rows[1]["words"]), R"(["wc","wc"])");
  EXPECT_EQ(json_text(rows[1]["tags"]), R"(["O","O"])");
  EXPECT_EQ(json_text(rows[1]["predicted"]), R"(["B-PER","O"])");
  EXPECT_NEAR(rows[1]["probability"][1].number(), 2.718281828 / (2.718281828 + 2.0), 1e-6);
  ASSERT_EQ(report.entity_figures.size(), 1u);
  const EntityFigures& figures = report.entity_figures[0];
  EXPECT_EQ(figures.type, "PER");
  EXPECT_EQ(figures.labelled, 3);
  EXPECT_EQ(figures.predicted, 4);
  EXPECT_EQ(figures.recall, 1.0);  // a leading I- opens an entity
  ASSERT_EQ(report.tagged_texts.size(), 3u);
  const TaggedText& worst = report.tagged_texts[0];
  EXPECT_EQ(worst.words.size(), 2u);
  ASSERT_EQ(worst.predicted.size(), 1u);
  EXPECT_EQ(worst.predicted[0].begin, 0u);
  EXPECT_EQ(worst.predicted[0].end, 1u);
  EXPECT_FALSE(worst.predicted[0].right);
  EXPECT_TRUE(report.tagged_texts[1].labelled[0].right);
  EXPECT_EQ(report.tagged_texts[1].labelled[0].end, 3u);
}

TEST(TokenTags, AWordsPredictionIsThatOfItsFirstToken) {
  const TemporaryFolder folder;
  ManifestColumns columns{"", "tokens", "tags", kMostClasses};
  columns.named_classes = columns.words = true;
  const Manifest manifest = Manifest::load(
      folder.write("rows.jsonl", R"({"tokens": ["long", "", "cut"], "tags": ["B-X", "O", "O"]})"), columns);
  const std::vector<std::string> tokens, classes = {"B-X", "O", "I-X"};
  const JudgedFiles files = {folder.path(), Split::kTest, manifest, tokens, classes};
  const std::vector<TokenTag> tags = {{0, 0, 1, 0.5f}, {0, 2, 2, 0.75f}};
  char text[512];
  JsonStream out{Span<char>(text, sizeof text)};
  out.begin_object();
  add_tagged_row(out, {0, files, tags});
  out.end_object();
  EXPECT_EQ(std::string(out.text()), R"({"words": ["long", "", "cut"], "tags": ["B-X", "O", "O"], )"
                                     R"("predicted": ["O", null, null], "probability": [0.5, null, null]})");
}

}  // namespace
}  // namespace bascule::test
