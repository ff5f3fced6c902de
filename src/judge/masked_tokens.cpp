// SPDX-License-Identifier: Apache-2.0
// Judges a model that predicts masked tokens: accuracy and perplexity over the labelled ones. Leaves predictions.jsonl.
#include <algorithm>

#include "src/base/check.h"
#include "src/base/elementary.h"
#include "src/judge/judges.h"
#include "src/judge/predictions.h"

namespace bascule {
namespace {

constexpr Metric kAccuracy = {"accuracy", "accuracy", 6, true, false, 1, 1};
constexpr Metric kPerplexity = {"perplexity", "perplexity", 8, false, true, 2};
constexpr Metric kMetrics[] = {kAccuracy, kPerplexity};

// The model's prediction for one labelled token.
struct TokenPrediction {
  std::int32_t position = 0;  // among the caption's tokens, the special one before them at 0
  std::int32_t expected = 0, predicted = 0;
  float probability = 0.0f;  // of the expected one
};

// null: the model knows more tokens than the tokenizer.
void add_token(JsonStream& out, const char* name, std::int32_t id, const std::vector<std::string>& tokens) {
  const std::size_t at = static_cast<std::size_t>(id);
  out.key(name);
  if (at < tokens.size() && !tokens[at].empty()) {
    out.string(tokens[at]);
  } else {
    out.null();
  }
}

class MaskedTokens final : public Judge {
 public:
  explicit MaskedTokens(const JudgeShape& shape) : Judge(shape) {
    plan(Part::kPredictions, &token_counts_, shape.predicted_rows);
    plan(Part::kPredictions, &tokens_, shape.predicted_rows * shape.counted_of_a_row);
  }

  const char* file() const override { return kPredictionsFile; }
  std::int64_t file_bytes(std::int64_t of_manifest) const override {
    return predictions_bytes(of_manifest, shape().predicted_rows, shape().counted_of_a_row);
  }
  bool names_tokens() const override { return shape().predicted_rows > 0; }

  void write_files(const JudgedFiles& files, Report*) const override {
    if (!keeps_predictions()) return;
    write_predictions(files, rows(), nullptr, [&](JsonStream& out, std::int64_t, std::int64_t row) {
      out.key("tokens").begin_array();
      for (std::int32_t i = 0; i < token_counts_[row]; ++i) {
        const TokenPrediction& token = tokens_[row * shape().counted_of_a_row + i];
        out.begin_object();
        out.key("position").integer(token.position);
        add_token(out, "expected", token.expected, files.tokens);
        add_token(out, "predicted", token.predicted, files.tokens);
        out.key("probability").number(static_cast<double>(token.probability));
        out.end_object();
      }
      out.end_array();
    });
  }

 protected:
  void found(GemmLibrary&) override {
    hits_ = integers("hits");
    if (shape().predicted_rows == 0) return;
    predicted_ = integers("predicted");
    probabilities_ = floats("probabilities");
  }

  double take_rows(const Batch& batch, const Manifest&, std::int64_t counted) noexcept override {
    if (keeps_predictions()) take_predictions(batch, counted);
    return static_cast<double>(std::count(hits_, hits_ + counted, 1));
  }

  void move_row(std::int64_t, std::int64_t) noexcept override {}

  void judge_rows(Threads&, const Sums& sums, EvaluationRecord* record) noexcept override {
    if (sums.counted == 0.0) return;  // no token was masked: there is nothing to judge
    (*record)[kAccuracy] = sums.right / sums.counted;
    (*record)[kPerplexity] = fixed_exp(record->loss);
  }

 private:
  void take_predictions(const Batch& batch, std::int64_t counted) noexcept {
    std::int64_t token = 0;  // of the batch's labelled ones
    const std::int32_t *const labels = field<std::int32_t>(batch, "labels"),
                              *const offsets = field<std::int32_t>(batch, "text_offsets"),
                              *const masked = field<std::int32_t>(batch, "selected_rows");
    for (std::int64_t s = 0; s < batch.counts.samples(); ++s) {
      const std::int64_t row = batch.rows[s];
      std::int32_t count = 0;
      for (; token < counted && masked[token] < offsets[s + 1]; ++token) {
        BASCULE_CHECK(count < shape().counted_of_a_row);
        tokens_[row * shape().counted_of_a_row + count++] = {masked[token] - offsets[s], labels[token],
                                                             predicted_[token], probabilities_[token]};
      }
      token_counts_[row] = count;
    }
  }

  const std::int32_t* hits_ = nullptr;       // (labelled tokens), 1 where the largest logit is the label's
  const std::int32_t* predicted_ = nullptr;  // (labelled tokens), where predictions are kept
  const float* probabilities_ = nullptr;     // the same
  std::int32_t* token_counts_ = nullptr;     // by row
  TokenPrediction* tokens_ = nullptr;        // by row, those of a row in order
};

}  // namespace

extern const JudgeKind kMaskedTokens;
const JudgeKind kMaskedTokens = {
    "masked_tokens", {kMetrics, std::size(kMetrics)}, true, "", [](const JudgeShape& shape) {
      return std::unique_ptr<Judge>(new MaskedTokens(shape));
    }};

}  // namespace bascule
