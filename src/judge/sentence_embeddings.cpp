// SPDX-License-Identifier: Apache-2.0
// Judges a model that embeds texts by its loss.
#include "src/judge/judge.h"

namespace bascule {
namespace {

class SentenceEmbeddings final : public Judge {
 public:
  explicit SentenceEmbeddings(const JudgeShape& shape) : Judge(shape) {}

  const char* file() const override { return ""; }
  std::int64_t file_bytes(std::int64_t) const override { return 0; }
  void write_files(const JudgedFiles&, Report*) const override {}

 protected:
  void take_rows(const Batch&, const Manifest&, Sums*) noexcept override {}
  void move_row(std::int64_t, std::int64_t) noexcept override {}
  void judge_rows(Threads&, const Sums*, EvaluationRecord*) noexcept override {}
};

}  // namespace

extern const JudgeKind kSentenceEmbeddings;
const JudgeKind kSentenceEmbeddings = {"sentence_embedding", {}, false, "", [](const JudgeShape& shape) {
                                         return std::unique_ptr<Judge>(new SentenceEmbeddings(shape));
                                       }};

}  // namespace bascule
