// SPDX-License-Identifier: Apache-2.0
// Judges a model that predicts masked tokens: accuracy and perplexity over the labelled ones. Leaves predictions.jsonl,
// and examples in the report. The first term of the loss is a mean over the labelled tokens.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/base/elementary.h"
#include "src/json/json_stream.h"
#include "src/judge/examples.h"
#include "src/judge/judge.h"

namespace bascule {

class MaskedTokens : public Judge {
 public:
  explicit MaskedTokens(const JudgeShape& shape);

  const char* file() const override;
  std::int64_t file_bytes(std::int64_t of_manifest) const override;
  bool names_tokens() const override { return shape().predicted_rows > 0; }
  void write_files(const JudgedFiles& files, Report* report) const override;

 protected:
  void take_rows(const Batch& batch, const Manifest& manifest, Sums* sums) noexcept override;
  void move_row(std::int64_t, std::int64_t) noexcept override {}
  void judge_rows(Threads& threads, const Sums* sums, EvaluationRecord* record) noexcept override;
  // Adds to the predictions of a row.
  virtual void add_prediction(JsonStream& out, std::int64_t row, const std::vector<std::string>& tokens) const;
  // Adds to the example of a row.
  virtual void add_to_example(SentenceExample*, std::int64_t /*row*/) const {}

 private:
  void take_predictions(const Batch& batch, std::int64_t counted) noexcept;
  void take_example(const Batch& batch, std::int64_t sample) noexcept;
  void add_examples(Report* report, const std::vector<std::string>& tokens) const;

  const std::int32_t* hits_ = nullptr;              // (labelled tokens), 1 where the largest logit is the label's
  const std::int32_t* predicted_ = nullptr;         // (labelled tokens, guesses_), where predictions are kept
  const float* predicted_probabilities_ = nullptr;  // the same
  const float* probabilities_ = nullptr;            // (labelled tokens), the same
  std::int64_t guesses_ = 0;
  int labels_ = -1, text_offsets_ = -1, token_ids_ = -1, selected_rows_ = -1;  // fields, where predictions are kept
  std::int32_t* token_counts_ = nullptr;                                       // by row
  TokenGuesses* tokens_ = nullptr;           // by row, counted_of_a_row each, those of a row in order
  std::int32_t* example_lengths_ = nullptr;  // by example
  std::int32_t* example_ids_ = nullptr;      // by example, longest_text each
};

namespace {

constexpr Metric kMaskedTokenMetrics[] = {kAccuracy, kPerplexity};

// Bytes of a masked token with its guesses, in predictions.jsonl.
constexpr std::int64_t kTokenBytes = 500;

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

}  // namespace

MaskedTokens::MaskedTokens(const JudgeShape& shape) : Judge(shape) {
  read(&hits_, "hits");
  plan(Part::kPredictions, &token_counts_, shape.predicted_rows);
  plan(Part::kPredictions, &tokens_, shape.predicted_rows * shape.counted_of_a_row);
  if (shape.predicted_rows == 0) return;
  plan(Part::kPredictions, &example_lengths_, kSentenceExamples);
  plan(Part::kPredictions, &example_ids_, kSentenceExamples * shape.longest_text);
  read(&predicted_, "predicted");
  read(&predicted_probabilities_, "predicted_probabilities");
  read(&probabilities_, "probabilities");
  guesses_ = output("predicted").cols;
  BASCULE_CHECK(guesses_ <= kTokenGuesses);
  labels_ = field_number("labels");
  text_offsets_ = field_number("text_offsets");
  token_ids_ = field_number("token_ids");
  selected_rows_ = field_number("selected_rows");
}

const char* MaskedTokens::file() const { return kPredictionsFile; }

std::int64_t MaskedTokens::file_bytes(std::int64_t of_manifest) const {
  return predictions_bytes(of_manifest, shape().predicted_rows, shape().counted_of_a_row * kTokenBytes);
}

void MaskedTokens::write_files(const JudgedFiles& files, Report* report) const {
  if (!keeps_predictions()) return;
  write_predictions(files, rows(), nullptr,
                    [&](JsonStream& out, std::int64_t, std::int64_t row) { add_prediction(out, row, files.tokens); });
  add_examples(report, files.tokens);
}

void MaskedTokens::add_prediction(JsonStream& out, std::int64_t row, const std::vector<std::string>& tokens) const {
  out.key("tokens").begin_array();
  for (std::int32_t i = 0; i < token_counts_[row]; ++i) {
    const TokenGuesses& token = tokens_[row * shape().counted_of_a_row + i];
    out.begin_object();
    out.key("position").integer(token.position);
    add_token(out, "expected", token.expected, tokens);
    add_token(out, "predicted", token.ids[0], tokens);
    out.key("probability").number(static_cast<double>(token.probability));
    out.key("guesses").begin_array();
    for (std::int64_t g = 0; g < guesses_; ++g) {
      out.begin_object();
      add_token(out, "token", token.ids[g], tokens);
      out.key("probability").number(static_cast<double>(token.probabilities[g]));
      out.end_object();
    }
    out.end_array();
    out.end_object();
  }
  out.end_array();
}

void MaskedTokens::take_rows(const Batch& batch, const Manifest&, Sums* sums) noexcept {
  const std::int64_t counted = static_cast<std::int64_t>(sums->counted);
  if (keeps_predictions()) take_predictions(batch, counted);
  sums->right = static_cast<double>(std::count(hits_, hits_ + counted, 1));
}

void MaskedTokens::judge_rows(Threads&, const Sums* sums, EvaluationRecord* record) noexcept {
  if (sums->counted == 0.0) return;  // no token was masked: there is nothing to judge
  (*record)[kAccuracy] = sums->share_right();
  (*record)[kPerplexity] = fixed_exp(sums->mean());
}

void MaskedTokens::take_predictions(const Batch& batch, std::int64_t counted) noexcept {
  std::int64_t token = 0;  // of the batch's labelled ones
  const std::int32_t *const labels = batch.field<std::int32_t>(labels_),
                            *const offsets = batch.field<std::int32_t>(text_offsets_),
                            *const masked = batch.field<std::int32_t>(selected_rows_);
  for (std::int64_t s = 0; s < batch.counts.samples(); ++s) {
    const std::int64_t row = batch.rows[s];
    std::int32_t count = 0;
    take_example(batch, s);
    for (; token < counted && masked[token] < offsets[s + 1]; ++token) {
      BASCULE_CHECK(count < shape().counted_of_a_row);
      TokenGuesses& one = tokens_[row * shape().counted_of_a_row + count++];
      one.position = masked[token] - offsets[s];
      one.expected = labels[token];
      one.probability = probabilities_[token];
      std::copy_n(predicted_ + token * guesses_, guesses_, one.ids);
      std::copy_n(predicted_probabilities_ + token * guesses_, guesses_, one.probabilities);
    }
    token_counts_[row] = count;
  }
}

// The tokens of a row that is shown.
void MaskedTokens::take_example(const Batch& batch, std::int64_t sample) noexcept {
  const std::int64_t example = example_of_row(batch.rows[sample], shape().predicted_rows);
  if (example < 0) return;
  const std::int32_t *const offsets = batch.field<std::int32_t>(text_offsets_), *const ids = batch.field<std::int32_t>(
                                                                                    token_ids_);
  const std::int32_t begin = offsets[sample], end = offsets[sample + 1];
  BASCULE_CHECK(end - begin <= shape().longest_text);
  example_lengths_[example] = end - begin;
  std::copy(ids + begin, ids + end, example_ids_ + example * shape().longest_text);
}

void MaskedTokens::add_examples(Report* report, const std::vector<std::string>& tokens) const {
  for (const std::int32_t row : rows()) {
    const std::int64_t example = example_of_row(row, shape().predicted_rows);
    if (example < 0) continue;
    KeptSentence kept;
    kept.ids = example_ids_ + example * shape().longest_text;
    kept.tokens = example_lengths_[example];
    kept.masked = tokens_ + row * shape().counted_of_a_row;
    kept.masked_tokens = token_counts_[row];
    kept.guesses = guesses_;
    report->sentence_examples.push_back(sentence_example(kept, tokens));
    add_to_example(&report->sentence_examples.back(), row);
  }
}

extern const JudgeKind kMaskedTokens;
const JudgeKind kMaskedTokens = judge_kind<MaskedTokens>("masked_tokens", kMaskedTokenMetrics, true);

// Judges a model that predicts masked tokens, and whether the second text of a pair follows the first one: both losses,
// and the share of right predictions of each. Leaves predictions.jsonl.

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
const JudgeKind kPretraining =
    judge_kind<Pretraining>("pretraining", kPretrainingMetrics, true,
                            "Perplexity is the exponential of `masked_lm_loss`; `loss` is the sum of both losses.");

}  // namespace bascule
