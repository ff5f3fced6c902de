// SPDX-License-Identifier: Apache-2.0
// Judges a model that writes a text: accuracy and perplexity over the labelled tokens, each given those before, and,
// where texts are generated, ROUGE of these against the targets of the file. Then the test file leaves
// predictions.jsonl and generated_predictions.txt, and rows with the best and the worst texts in the report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/judge/judge.h"
#include "src/judge/rouge.h"

namespace bascule {

class TargetTokens final : public Judge {
 public:
  explicit TargetTokens(const JudgeShape& shape);

  const char* file() const override;
  std::int64_t file_bytes(std::int64_t of_manifest) const override;
  void write_files(const JudgedFiles& files, Report* report) const override;

 protected:
  void found(GemmLibrary&) override;
  void take_rows(const Batch& batch, const Manifest& manifest, Sums* sums) noexcept override;
  void move_row(std::int64_t to, std::int64_t from) noexcept override;
  void judge_rows(Threads& threads, const Sums* sums, EvaluationRecord* record) noexcept override;

 private:
  // Figures of one row; F1 times 100.
  struct RowFigures {
    double rouge[4];      // 1, 2, L, Lsum
    std::int64_t tokens;  // but padding; below 0: no text was generated
  };
  struct KeptText {
    std::int32_t count;
    float score;
  };

  void take_text(const Batch& batch, std::int64_t sample, const Manifest& manifest) noexcept;
  // How many ids are not padding, which a row that goes on may write too.
  std::int64_t tokens_of(Span<const std::int32_t> ids) const noexcept;
  // The text of a row whose prediction is kept. Allocates.
  std::string kept_text(std::int64_t row) const;
  void add_examples(const JudgedFiles& files, Report* report) const;

  const std::int32_t* hits_ = nullptr;
  const std::int32_t *generated_ = nullptr, *generated_counts_ = nullptr;
  const float* generated_scores_ = nullptr;
  std::int64_t most_ids_ = 0;  // of a text
  std::size_t text_bytes_ = 0;
  std::optional<Rouge> rouge_;
  std::byte* rouge_memory_ = nullptr;
  char* text_ = nullptr;              // of the row that is taken
  RowFigures* figures_ = nullptr;     // by row, then by row judged
  std::int32_t* kept_ids_ = nullptr;  // (predicted rows, most ids)
  KeptText* kept_ = nullptr;
};

}  // namespace bascule
