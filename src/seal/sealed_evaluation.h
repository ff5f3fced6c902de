// SPDX-License-Identifier: Apache-2.0
// The sixth part of the seal: the judge in its memory, and the evaluations of the weights and of their average. Before
// the seal; throws Error kData where the tokenizer's files are damaged.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/distributed/group.h"
#include "src/record/recorded_run.h"
#include "src/replay/evaluate.h"
#include "src/runtime/arena.h"

namespace bascule {

class SealedEvaluation {
 public:
  // With a sealed session. Seals run.graphs.judge, and what generates texts. run and group outlive this.
  SealedEvaluation(RecordedRun& run, const Arena& arena, Group& group);
  SealedEvaluation(const SealedEvaluation&) = delete;
  SealedEvaluation& operator=(const SealedEvaluation&) = delete;

  Evaluation* of_weights() { return of_weights_ ? &*of_weights_ : nullptr; }  // null: nothing is evaluated
  Evaluation* of_average() { return of_average_ ? &*of_average_ : nullptr; }  // null: no average is
  bool judges_average() const { return of_average_.has_value(); }
  // By id; rank 0's, where predictions name tokens.
  const std::vector<std::string>& token_texts() const { return token_texts_; }

 private:
  void seal_texts(RecordedRun& run, const Arena& arena);

  std::unique_ptr<BatchRunner> runner_, averaged_runner_;
  std::optional<Evaluation> of_weights_, of_average_;
  std::vector<std::string> token_texts_;
};

}  // namespace bascule
