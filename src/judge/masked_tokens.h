// SPDX-License-Identifier: Apache-2.0
// Judges predictions of masked tokens. The first term of the loss is a mean over them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

}  // namespace bascule
