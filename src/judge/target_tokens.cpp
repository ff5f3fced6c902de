// SPDX-License-Identifier: Apache-2.0
// Judges a model that writes a text: accuracy and perplexity over the labelled tokens, each given those before, and,
// where texts are generated, ROUGE of these against the targets of the file. Then the test file leaves
// predictions.jsonl and generated_predictions.txt, and rows with the best and the worst texts in the report.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "src/base/elementary.h"
#include "src/files/durable_write.h"
#include "src/judge/examples.h"
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

namespace {

// Names as run_summarization.py has them.
constexpr Metric kRouge[] = {{"rouge1", "ROUGE-1", 0, false, false, 3, 2, true},
                             {"rouge2", "ROUGE-2", 1, false, false, 4, 3, true},
                             {"rougeL", "ROUGE-L", 2, false, false, 0, 4, true},
                             {"rougeLsum", "ROUGE-Lsum", 3, false, false, 5, 5, true}};
constexpr Metric kLength = {"gen_len", "tokens of a generated text", 4, false, false, 0, 0, true, false};
constexpr Metric kTargetTokenMetrics[] = {kAccuracy, kPerplexity, kRouge[0], kRouge[1], kRouge[2], kRouge[3], kLength};

constexpr char kTargetTokenNote[] =
    "ROUGE is the mean F measure over the rows, times 100, as the Python package `rouge_score` computes it with its "
    "stemmer; a generated text is split into sentences at `.`, `!` and `?` before a space.";

constexpr std::size_t kShownTexts = 8;  // with the best ROUGE-Lsum, and as many with the worst

// For ROUGE-Lsum, which compares line by line.
void split_sentences(char* text, std::size_t bytes) noexcept {
  for (std::size_t i = 1; i < bytes; ++i) {
    const char before = text[i - 1];
    if (text[i] == ' ' && (before == '.' || before == '!' || before == '?')) text[i] = '\n';
  }
}

}  // namespace

TargetTokens::TargetTokens(const JudgeShape& shape) : Judge(shape) {
  read(&hits_, "hits");
  if (!judges_texts()) return;
  read(&generated_, "generated");
  read(&generated_counts_, "generated_counts");
  read(&generated_scores_, "generated_scores");
  most_ids_ = output("generated").cols;
  text_bytes_ = static_cast<std::size_t>(most_ids_) * shape.decoder->most_bytes_of_token();
  const std::size_t bytes = std::max(text_bytes_, shape.longest_reference_bytes);
  rouge_.emplace(RougeLimits{bytes, Rouge::most_words(bytes)});
  plan(Part::kRows, &figures_, shape.max_rows);
  plan(Part::kPredictions, &kept_ids_, shape.predicted_rows * most_ids_);
  plan(Part::kPredictions, &kept_, shape.predicted_rows);
  plan(Part::kOwn, &text_, static_cast<std::int64_t>(text_bytes_));
  plan(Part::kOwn, &rouge_memory_, static_cast<std::int64_t>(rouge_->bytes()));
}

void TargetTokens::found(GemmLibrary&) {
  if (judges_texts()) rouge_->seal(rouge_memory_);
}

void TargetTokens::take_rows(const Batch& batch, const Manifest& manifest, Sums* sums) noexcept {
  sums->right = static_cast<double>(std::count(hits_, hits_ + static_cast<std::int64_t>(sums->counted), 1));
  if (!judges_texts()) return;
  for (std::int64_t s = 0; s < batch.counts.samples(); ++s) take_text(batch, s, manifest);
}

void TargetTokens::take_text(const Batch& batch, std::int64_t sample, const Manifest& manifest) noexcept {
  const std::int64_t row = batch.rows[sample];
  const std::int32_t* const ids = generated_ + sample * most_ids_;
  const std::int32_t count = generated_counts_[sample];
  RowFigures& figures = figures_[row];
  figures = {};
  figures.tokens = -1;
  if (count >= 0) {
    const Span<const std::int32_t> text_ids(ids, static_cast<std::size_t>(count));
    const std::size_t bytes = shape().decoder->decode_into(text_ids, {text_, text_bytes_});
    split_sentences(text_, bytes);
    const RougeScores scores = rouge_->score(manifest.row(row).second_text.value_or(""), {text_, bytes});
    const double f[] = {scores.rouge1.f, scores.rouge2.f, scores.rougeL.f, scores.rougeLsum.f};
    std::transform(std::begin(f), std::end(f), figures.rouge, [](double x) { return 100.0 * x; });
    figures.tokens = tokens_of(text_ids);
  }
  if (!keeps_predictions()) return;
  kept_[row] = {count, generated_scores_[sample]};
  std::copy_n(ids, count, kept_ids_ + row * most_ids_);  // copies nothing where count is negative
}

void TargetTokens::move_row(std::int64_t to, std::int64_t from) noexcept {
  if (judges_texts()) figures_[to] = figures_[from];
}

void TargetTokens::judge_rows(Threads&, const Sums* sums, EvaluationRecord* record) noexcept {
  if (sums->counted > 0.0) {
    (*record)[kAccuracy] = sums->share_right();
    (*record)[kPerplexity] = fixed_exp(sums->mean());
  }
  const std::int64_t rows = static_cast<std::int64_t>(this->rows().size());
  if (!judges_texts() || rows == 0 || figures_[0].tokens < 0) return;
  const auto mean_of = [&](auto value) {
    double sum = 0.0;
    for (std::int64_t row = 0; row < rows; ++row) sum += value(figures_[row]);
    return sum / static_cast<double>(rows);
  };
  for (std::size_t i = 0; i < std::size(kRouge); ++i)
    (*record)[kRouge[i]] = mean_of([i](const RowFigures& row) { return row.rouge[i]; });
  (*record)[kLength] = mean_of([](const RowFigures& row) { return static_cast<double>(row.tokens); });
}

const char* TargetTokens::file() const { return judges_texts() ? kPredictionsFile : ""; }

std::int64_t TargetTokens::file_bytes(std::int64_t of_manifest) const {
  // In both files, escaped in the one.
  return judges_texts()
             ? predictions_bytes(of_manifest, shape().predicted_rows, 3 * static_cast<std::int64_t>(text_bytes_) + 64)
             : 0;
}

std::int64_t TargetTokens::tokens_of(Span<const std::int32_t> ids) const noexcept {
  return static_cast<std::int64_t>(ids.size()) - std::count(ids.begin(), ids.end(), shape().pad_id);
}

std::string TargetTokens::kept_text(std::int64_t row) const {
  return shape().decoder->decode({kept_ids_ + row * most_ids_, static_cast<std::size_t>(kept_[row].count)});
}

void TargetTokens::write_files(const JudgedFiles& files, Report* report) const {
  if (!keeps_predictions() || !judges_texts() || rows().empty() || kept_[rows()[0]].count < 0) return;
  std::string lines;
  write_predictions(
      files, rows(), nullptr,
      [&](JsonStream& out, std::int64_t, std::int64_t row) {
        out.key("generated").string(kept_text(row));
        out.key("tokens").integer(tokens_of({kept_ids_ + row * most_ids_, static_cast<std::size_t>(kept_[row].count)}));
        out.key("score").number(static_cast<double>(kept_[row].score));
      },
      {"text", files.manifest.is_unlabelled() ? nullptr : "summary"});
  for (const std::int32_t row : rows()) {
    std::string text = kept_text(row);
    std::replace(text.begin(), text.end(), '\n', ' ');
    lines += text + "\n";
  }
  write_output_file(files.folder + "/" + kGeneratedTextsFile, lines);
  if (!files.manifest.is_unlabelled()) add_examples(files, report);
}

// The best first, then the worst ones that are not among them, the worst last.
void TargetTokens::add_examples(const JudgedFiles& files, Report* report) const {
  std::vector<std::size_t> order(rows().size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return figures_[a].rouge[3] > figures_[b].rouge[3]; });
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i >= kShownTexts && i + kShownTexts < order.size()) continue;
    const RowFigures& figures = figures_[order[i]];
    const ManifestRow row = files.manifest.row(rows()[order[i]]);
    TextExample example;
    example.source = std::string(row.text);
    example.reference = std::string(row.second_text.value_or(""));
    example.generated = kept_text(rows()[order[i]]);
    std::copy(std::begin(figures.rouge), std::end(figures.rouge), example.rouge);
    report->text_examples.push_back(std::move(example));
  }
}

extern const JudgeKind kTargetTokens;
const JudgeKind kTargetTokens = judge_kind<TargetTokens>("target_tokens", kTargetTokenMetrics, true, kTargetTokenNote);

}  // namespace bascule
