// SPDX-License-Identifier: Apache-2.0
// Judges a model that predicts a text token by token, given those before: accuracy and perplexity over the labelled
// ones. It leaves no file.
#include <algorithm>
#include <iterator>

#include "src/base/elementary.h"
#include "src/judge/judges.h"

namespace bascule {
namespace {

constexpr Metric kAccuracy = {"accuracy", "accuracy", 6, true, false, 1, 1};
constexpr Metric kPerplexity = {"perplexity", "perplexity", 8, false, true, 2};
constexpr Metric kMetrics[] = {kAccuracy, kPerplexity};

class TargetTokens final : public Judge {
 public:
  explicit TargetTokens(const JudgeShape& shape) : Judge(shape) { read(&hits_, "hits"); }

  const char* file() const override { return ""; }
  std::int64_t file_bytes(std::int64_t) const override { return 0; }
  void write_files(const JudgedFiles&, Report*) const override {}

 protected:
  void take_rows(const Batch&, const Manifest&, Sums* sums) noexcept override {
    sums->right = static_cast<double>(std::count(hits_, hits_ + static_cast<std::int64_t>(sums->counted), 1));
  }
  void move_row(std::int64_t, std::int64_t) noexcept override {}
  void judge_rows(Threads&, const Sums* sums, EvaluationRecord* record) noexcept override {
    if (sums->counted == 0.0) return;
    (*record)[kAccuracy] = sums->share_right();
    (*record)[kPerplexity] = fixed_exp(sums->mean());
  }

 private:
  const std::int32_t* hits_ = nullptr;
};

}  // namespace

extern const JudgeKind kTargetTokens;
const JudgeKind kTargetTokens = {
    "target_tokens", {kMetrics, std::size(kMetrics)}, false, "", [](const JudgeShape& shape) {
      return std::unique_ptr<Judge>(new TargetTokens(shape));
    }};

}  // namespace bascule
