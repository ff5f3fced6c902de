// SPDX-License-Identifier: Apache-2.0
// Judges a model that predicts a value for each text, as run_glue.py does: mean squared error, Pearson's and Spearman's
// correlation; and a model that embeds texts by the cosines of scored pairs. Leaves predictions.jsonl, and in the
// report the rows that are furthest off.
#include <algorithm>
#include <cmath>

#include "src/base/error.h"
#include "src/judge/examples.h"
#include "src/judge/judge.h"
#include "src/judge/statistics.h"

namespace bascule {
namespace {

constexpr Metric kError = {"mse", "mean squared error", 0, false, true, 3};
constexpr Metric kPearson = {"pearson", "Pearson's correlation", 1, false, false, 1, 1};
constexpr Metric kSpearman = {"spearmanr", "Spearman's correlation", 2, false, false, 2, 2};
constexpr Metric kMeanOfCorrelations = {"combined_score", "mean of both correlations", 3, false};
constexpr Metric kSequenceValueMetrics[] = {kError, kPearson, kSpearman, kMeanOfCorrelations};
constexpr Metric kSimilarityMetrics[] = {kPearson, kSpearman};

constexpr char kSequenceValueNote[] =
    "`mse`, `pearson`, `spearmanr` and `combined_score`, the mean of both correlations, are those of `run_glue.py`.";

constexpr char kSimilarityNote[] =
    "`pearson` and `spearmanr` are the correlations of cosines and scores, those of sentence-transformers' "
    "`EmbeddingSimilarityEvaluator`.";

constexpr std::int64_t kValueBytes = 60;  // of a row's label and prediction, in predictions.jsonl
constexpr std::size_t kWorstTexts = 12;

// The outputs that values are taken from.
constexpr char kLogits[] = "logits", kEmbeddings[] = "sentence_embedding";

struct JudgedValue {
  float label = 0.0f, predicted = 0.0f;

  double error() const { return std::abs(static_cast<double>(predicted) - static_cast<double>(label)); }
};

class SequenceValues final : public Judge {
 public:
  SequenceValues(const JudgeShape& shape, const char* values)
      : Judge(shape),
        label_field_(field_number("labels")),
        embeds_(values == kEmbeddings),
        width_(output(values).cols) {
    read(&values_, values);
    plan(Part::kRows, &judged_, shape.max_rows);
    plan(Part::kPredictions, &predicted_, shape.predicted_rows);
    plan(Part::kScratch, &x_, shape.max_rows);
    plan(Part::kScratch, &y_, shape.max_rows);
    plan(Part::kScratch, &order_, shape.max_rows);
  }

  const char* file() const override { return kPredictionsFile; }
  std::int64_t file_bytes(std::int64_t of_manifest) const override {
    return predictions_bytes(of_manifest, shape().predicted_rows, kValueBytes);
  }

  void write_files(const JudgedFiles& files, Report* report) const override {
    if (!keeps_predictions()) return;
    write_predictions(files, rows(), nullptr,
                      [&](JsonStream& out, std::int64_t, std::int64_t row) {
                        if (!files.manifest.is_unlabelled()) out.key("label").number(as_written(predicted_[row].label));
                        out.key("predicted").number(as_written(predicted_[row].predicted));
                      },
                      {"text", "text_pair"});
    if (files.manifest.is_unlabelled()) return;
    std::vector<std::int32_t> worst(rows().begin(), rows().end());
    std::stable_sort(worst.begin(), worst.end(),
                     [this](std::int32_t a, std::int32_t b) { return predicted_[a].error() > predicted_[b].error(); });
    worst.resize(std::min(worst.size(), kWorstTexts));
    for (const std::int32_t row : worst) {
      const ManifestRow texts = files.manifest.row(row);
      report->text_values.push_back({std::string(texts.text), std::string(texts.second_text.value_or("")),
                                     as_written(predicted_[row].label), as_written(predicted_[row].predicted)});
    }
  }

 protected:
  void take_rows(const Batch& batch, const Manifest&, Sums*) noexcept override {
    const float* const labels = batch.field<float>(label_field_);
    for (std::int64_t s = 0; s < batch.counts.samples(); ++s) {
      judged_[batch.rows[s]] = {labels[s], value(s)};
      if (keeps_predictions()) predicted_[batch.rows[s]] = judged_[batch.rows[s]];
    }
  }

  void move_row(std::int64_t to, std::int64_t from) noexcept override { judged_[to] = judged_[from]; }

  void judge_rows(Threads&, const Sums*, EvaluationRecord* record) noexcept override {
    double squares = 0.0;
    for (std::int64_t i = 0; i < record->samples; ++i) {
      x_[i] = static_cast<double>(judged_[i].predicted);
      y_[i] = static_cast<double>(judged_[i].label);
      squares += (x_[i] - y_[i]) * (x_[i] - y_[i]);
    }
    (*record)[kError] = squares / static_cast<double>(record->samples);
    const double pearson = pearson_correlation(x_, y_, record->samples);
    const double spearman = spearman_correlation(x_, y_, record->samples, order_);
    (*record)[kPearson] = pearson;
    (*record)[kSpearman] = spearman;
    (*record)[kMeanOfCorrelations] = (pearson + spearman) / 2.0;
  }

 private:
  // That the model gives a sample, or the cosine of the embeddings of its two texts.
  float value(std::int64_t sample) const noexcept {
    if (!embeds_) return values_[sample];
    const float* const first = values_ + 2 * sample * width_;
    return static_cast<float>(cosine(first, first + width_, width_));
  }

  const int label_field_;
  const bool embeds_;
  const std::int64_t width_;
  const float* values_ = nullptr;     // (samples), or (2 x samples, width)
  JudgedValue* judged_ = nullptr;     // by row, the rows that were judged together at the end
  JudgedValue* predicted_ = nullptr;  // by manifest row
  double *x_ = nullptr, *y_ = nullptr;
  std::int32_t* order_ = nullptr;
};

}  // namespace

extern const JudgeKind kSequenceValues;
const JudgeKind kSequenceValues = {
    "sequence_values",
    {kSequenceValueMetrics, std::size(kSequenceValueMetrics)},
    true,
    kSequenceValueNote,
    [](const JudgeShape& shape) { return std::unique_ptr<Judge>(new SequenceValues(shape, kLogits)); }};

extern const JudgeKind kSentenceSimilarity;
const JudgeKind kSentenceSimilarity = {
    "sentence_similarity",
    {kSimilarityMetrics, std::size(kSimilarityMetrics)},
    true,
    kSimilarityNote,
    [](const JudgeShape& shape) { return std::unique_ptr<Judge>(new SequenceValues(shape, kEmbeddings)); }};

}  // namespace bascule
