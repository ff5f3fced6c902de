// SPDX-License-Identifier: Apache-2.0
// Judges a model that predicts masked tokens, and whether the second text of a pair follows the first one: both losses,
// and the share of right predictions of each. Leaves predictions.jsonl.
#include <algorithm>

#include "src/base/elementary.h"
#include "src/judge/judges.h"
#include "src/judge/masked_tokens.h"
#include "src/judge/shared_metrics.h"

namespace bascule {
namespace {

// In the order of the loss's terms.
enum : std::size_t { kTokens, kSentences };

constexpr Metric kTokenLoss = {"masked_lm_loss", "loss of masked tokens", 0, false, true, 0, 2};
constexpr Metric kTokenAccuracy = {"masked_lm_accuracy", "accuracy of masked tokens", 6, true, false, 1, 1};
constexpr Metric kSentenceLoss = {"next_sentence_loss", "loss of next sentences", 1, false, true, 0, 4};
constexpr Metric kSentenceAccuracy = {"next_sentence_accuracy", "accuracy of next sentences", 7, true, false, 3, 3};
constexpr Metric kPretrainingMetrics[] = {kTokenLoss, kPerplexity, kTokenAccuracy, kSentenceLoss, kSentenceAccuracy};

struct SentencePrediction {
  std::int32_t expected = 0, predicted = 0;  // expected: -1 where rows say nothing of it
  float probability = 0.0f;                  // of the expected one, or else of the predicted one
};

class Pretraining final : public MaskedTokens {
 public:
  explicit Pretraining(const JudgeShape& shape) : MaskedTokens(shape) {
    plan(Part::kPredictions, &sentences_, shape.predicted_rows);
    read(&hits_, "next_sentence_hits");
    if (shape.predicted_rows == 0) return;
    read(&predicted_, "next_sentence_predicted");
    read(&probabilities_, "next_sentence_probabilities");
    answers_ = output("next_sentence_predicted").cols;
    label_field_ = field_number("next_sentence_labels");
  }

 protected:
  void take_rows(const Batch& batch, const Manifest& manifest, Sums* sums) noexcept override {
    MaskedTokens::take_rows(batch, manifest, sums);
    const std::int64_t samples = batch.counts.samples();
    sums[kSentences].right = static_cast<double>(std::count(hits_, hits_ + samples, 1));
    if (!keeps_predictions()) return;
    const std::int32_t* const labels = batch.field<std::int32_t>(label_field_);
    for (std::int64_t s = 0; s < samples; ++s) {
      SentencePrediction& sentence = sentences_[batch.rows[s]];
      sentence = {labels[s], predicted_[s * answers_], probabilities_[s]};
      if (!manifest.is_unlabelled()) continue;
      if (sentence.predicted != sentence.expected) sentence.probability = 1.0f - sentence.probability;
      sentence.expected = -1;
    }
  }

  void judge_rows(Threads&, const Sums* sums, EvaluationRecord* record) noexcept override {
    (*record)[kSentenceLoss] = sums[kSentences].mean();
    (*record)[kSentenceAccuracy] = sums[kSentences].share_right();
    if (sums[kTokens].counted == 0.0) return;  // no token was masked
    (*record)[kTokenLoss] = sums[kTokens].mean();
    (*record)[kPerplexity] = fixed_exp(sums[kTokens].mean());
    (*record)[kTokenAccuracy] = sums[kTokens].share_right();
  }

  void add_prediction(JsonStream& out, std::int64_t row, const std::vector<std::string>& tokens) const override {
    MaskedTokens::add_prediction(out, row, tokens);
    const SentencePrediction& sentence = sentences_[row];
    out.key("next_sentence").begin_object();
    if (sentence.expected >= 0) out.key("expected").integer(sentence.expected);
    out.key("predicted").integer(sentence.predicted);
    out.key("probability").number(static_cast<double>(sentence.probability));
    out.end_object();
  }

  void add_to_example(SentenceExample* example, std::int64_t row) const override {
    const SentencePrediction& sentence = sentences_[row];
    if (sentence.expected < 0) return;
    example->is_pair = true;
    example->follows = sentence.expected == 0;
    example->predicted_to_follow = sentence.predicted == 0;
    const double of_expected = static_cast<double>(sentence.probability);
    example->probability = sentence.predicted == sentence.expected ? of_expected : 1.0 - of_expected;
  }

 private:
  const std::int32_t* hits_ = nullptr;       // (samples), 1 where the larger logit is the label's
  const std::int32_t* predicted_ = nullptr;  // (samples, answers_), best first, where predictions are kept
  const float* probabilities_ = nullptr;     // (samples), the same
  std::int64_t answers_ = 0;
  int label_field_ = -1;                     // where predictions are kept
  SentencePrediction* sentences_ = nullptr;  // by row
};

}  // namespace

extern const JudgeKind kPretraining;
const JudgeKind kPretraining = {"pretraining",
                                {kPretrainingMetrics, std::size(kPretrainingMetrics)},
                                true,
                                "Perplexity is the exponential of `masked_lm_loss`; `loss` is the sum of both losses.",
                                [](const JudgeShape& shape) { return std::unique_ptr<Judge>(new Pretraining(shape)); }};

}  // namespace bascule
