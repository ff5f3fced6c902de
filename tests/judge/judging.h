// SPDX-License-Identifier: Apache-2.0
// A split of hand-made rows, judged from hand-made batches of two.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "src/base/span.h"
#include "src/checkpoint/safetensors.h"
#include "src/judge/judge.h"
#include "src/runtime/threads.h"
#include "tests/judge/metric_of.h"
#include "tests/support/own_products.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {

inline constexpr std::int64_t kBatch = 2;
inline constexpr char kRetrieval[] = "contrastive_retrieval", kMatching[] = "matching", kTokens[] = "masked_tokens",
                      kPretraining[] = "pretraining", kClasses[] = "classes";
inline constexpr std::int64_t kLongestText = 600;

// The streams and fields of the batches.
inline constexpr int kMaskedTokens = kFirstModelStream;
inline constexpr int kLabels = 0, kOffsets = 1, kSelected = 2, kSentenceLabels = 3, kTokenIds = 4;
inline const Fields fields_of_batches = {{"labels", DType::kInt32, {}, 1, FieldSource::kMatchLabels},
                                         {"text_offsets", DType::kInt32, {}, 1, FieldSource::kTextOffsets},
                                         {"selected_rows", DType::kInt32, {}, 1, FieldSource::kMaskedRows},
                                         {"next_sentence_labels", DType::kInt32, {}, 1, FieldSource::kClassLabels},
                                         {"token_ids", DType::kInt32, {}, 1, FieldSource::kTokenIds}};

// The results of a replay for a batch; what the judge does not read stays empty.
struct Computed {
  float loss = 0.0f;
  std::vector<float> text_embeds, image_embeds, cross_embeds, logits, probabilities, predicted_probabilities;
  std::vector<std::int32_t> hits, predicted;  // two guesses a labelled token
  // These are for a head with a second term of the loss.
  float sentence_loss = 0.0f;
  std::vector<float> sentence_probabilities;
  std::vector<std::int32_t> sentence_hits, sentence_predicted;
};

class Judging {
 public:
  // pictures: of each row, by the letter that names it. width: of embeddings; of a classifier's judge, its
  // outputs; 0: two. tokens: most labelled ones of a row.
  Judging(const std::string& judge, const std::string& pictures, std::int64_t width, bool keeps_predictions = false,
          std::int64_t tokens = 1)
      : kind_(judge_named(judge)),
        keeps_predictions_(keeps_predictions),
        width_(width),
        logits_(width > 0 && (judge == kClasses || judge.rfind("sequence_", 0) == 0) ? width : 2),
        products_(1),
        threads_(1, false) {
    std::string rows;
    for (std::size_t i = 0; i < pictures.size(); ++i) {
      folder_.write(std::string(1, pictures[i]) + ".jpg", "");
      rows += std::string("{\"image\": \"") + pictures[i] + ".jpg\", \"caption\": \"c" + std::to_string(i) + "\"}\n";
    }
    manifest_ = std::make_unique<Manifest>(Manifest::load(folder_.write("rows.jsonl", rows), ManifestColumns()));
    JudgeShape shape;
    shape.max_rows = manifest_->rows() + 3;
    shape.batch = kBatch;
    shape.predicted_rows = keeps_predictions ? manifest_->rows() : 0;
    shape.losses = {{"loss", judge == kTokens || judge == kPretraining ? kMaskedTokens : kSamples}};
    if (judge == kPretraining) shape.losses.push_back({"next_sentence_loss", kSamples});
    shape.fields = fields_of_batches;
    shape.counted_of_a_row = tokens;
    shape.longest_text = kLongestText;
    shape.outputs = outputs();
    judge_ = kind_.make(shape);
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kCacheLine, judge_->bytes())));
    judge_->seal(memory_.get(), nullptr, outputs(), products_);
    begin();
  }
  void begin() { judge_->begin(manifest_->rows(), keeps_predictions_); }

  // The rows of batch `index` that are judged; selected: labelled tokens.
  void take(std::int64_t index, const std::vector<std::int64_t>& rows, const Computed& computed,
            const std::vector<std::int32_t>& labels = {}, std::int64_t selected = 0) {
    Batch batch;
    batch.counts[kSamples] = static_cast<std::int64_t>(rows.size());
    batch.counts[kMaskedTokens] = selected;
    batch.first_position = index * kBatch;
    batch.positions = std::min(kBatch, manifest_->rows() - batch.first_position);
    batch.rows = batch.rows_of_texts = rows.data();
    batch.fields[kLabels] = labels.data();
    take(batch, computed);
  }
  // As a replay leaves it: always at the same place.
  void take(const Batch& batch, const Computed& computed) {
    loss_ = computed.loss;
    sentence_loss_ = computed.sentence_loss;
    std::copy(computed.text_embeds.begin(), computed.text_embeds.end(), floats_[0]);
    std::copy(computed.image_embeds.begin(), computed.image_embeds.end(), floats_[1]);
    std::copy(computed.cross_embeds.begin(), computed.cross_embeds.end(), floats_[2]);
    std::copy(computed.logits.begin(), computed.logits.end(), floats_[3]);
    std::copy(computed.probabilities.begin(), computed.probabilities.end(), floats_[4]);
    std::copy(computed.hits.begin(), computed.hits.end(), integers_[0]);
    std::copy(computed.predicted_probabilities.begin(), computed.predicted_probabilities.end(), floats_[6]);
    std::copy(computed.predicted.begin(), computed.predicted.end(), integers_[1]);
    std::copy(computed.sentence_probabilities.begin(), computed.sentence_probabilities.end(), floats_[5]);
    std::copy(computed.sentence_hits.begin(), computed.sentence_hits.end(), integers_[2]);
    std::copy(computed.sentence_predicted.begin(), computed.sentence_predicted.end(), integers_[3]);
    judge_->take(batch, *manifest_);
  }
  // Contrastive: text and image embeddings of the batch's rows.
  void take(std::int64_t index, const std::vector<std::int64_t>& rows, float loss, const std::vector<float>& text,
            const std::vector<float>& images) {
    ASSERT_EQ(text.size(), rows.size() * static_cast<std::size_t>(width_));
    Computed computed;
    computed.loss = loss;
    computed.text_embeds = text;
    computed.image_embeds = computed.cross_embeds = images;
    take(index, rows, computed);
  }
  EvaluationRecord finish() {
    EvaluationRecord record;
    judge_->finish(threads_, &record);
    return record;
  }
  double metric(const EvaluationRecord& record, const std::string& key) const {
    return record[metric_of(kind_.name, key)];
  }
  std::vector<std::int32_t> rows() const { return {judge_->rows().begin(), judge_->rows().end()}; }
  Judge& judge() { return *judge_; }
  const Manifest& manifest() const { return *manifest_; }

  // Its file into a folder; what it adds to the report.
  Report write(const std::string& folder, const std::vector<std::string>& tokens = {},
               const std::vector<std::string>& classes = {}, bool has_page = true) const {
    Report report;
    judge_->write_files({folder, Split::kTest, *manifest_, tokens, classes, has_page}, &report);
    return report;
  }
  std::vector<std::string> lines(const std::vector<std::string>& tokens,
                                 const std::vector<std::string>& classes = {}) const {
    const TemporaryFolder folder;
    (void)write(folder.path(), tokens, classes);
    std::ifstream file(folder.path() + "/" + judge_->file());
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line + (file.eof() ? "" : "\n"));
    return lines;
  }
  std::vector<float> embeddings(const std::string& name) const {
    const TemporaryFolder folder;
    (void)write(folder.path());
    const TensorSource source = open_safetensors(folder.path() + "/" + judge_->file());
    const StoredTensor& tensor = *source.find(name);
    std::vector<float> values(static_cast<std::size_t>(tensor.shape[0] * tensor.shape[1]));
    source.read_float32(values.data(), tensor, 0, static_cast<std::int64_t>(values.size()));
    return values;
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::vector<JudgedOutput> outputs() const {
    return {{"loss", 1, &loss_},
            {"text_embeds", width_, floats_[0]},
            {"image_embeds", width_, floats_[1]},
            {"cross_embeds", width_, floats_[2]},
            {"logits", logits_, floats_[3]},
            {"probabilities", 1, floats_[4]},
            {"hits", 1, integers_[0]},
            {"predicted", 2, integers_[1]},
            {"predicted_probabilities", 2, floats_[6]},
            {"next_sentence_loss", 1, &sentence_loss_},
            {"next_sentence_probabilities", 1, floats_[5]},
            {"next_sentence_hits", 1, integers_[2]},
            {"next_sentence_predicted", 1, integers_[3]}};
  }

  const JudgeKind& kind_;
  bool keeps_predictions_;
  std::int64_t width_, logits_;
  TemporaryFolder folder_;
  std::unique_ptr<Manifest> manifest_;
  OwnProducts products_;
  Threads threads_;
  float loss_ = 0.0f, sentence_loss_ = 0.0f, floats_[7][1024] = {};
  std::int32_t integers_[4][1024] = {};
  std::unique_ptr<std::byte, Free> memory_;
  std::unique_ptr<Judge> judge_;
};

}  // namespace bascule::test
