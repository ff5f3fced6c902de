// SPDX-License-Identifier: Apache-2.0
// Generates a text for each sample of a batch, then computes its losses by another tape: their outputs lie in the
// workspace that all tapes take turns in, so they come last.
#pragma once

#include "src/generate/generated_rows.h"
#include "src/generate/generator.h"
#include "src/replay/batch_runner.h"

namespace bascule {

class GeneratingRunner final : public BatchRunner {
 public:
  // All outlive this.
  GeneratingRunner(const Tape& losses, Generator& generator, GeneratedRows& rows)
      : losses_(losses), generator_(generator), rows_(rows) {}

  Status run(const Batch& batch, Threads& threads, DecodingWatch* watch) noexcept override {
    if (const int signal = generator_.run(batch, threads, watch); signal != 0)
      return {StatusCode::kStopped, {signal, 0}};
    if (generator_.saw_not_finite()) return {StatusCode::kTextsNotFinite, {0, 0}};
    rows_.take(generator_.search(), batch.counts.samples());
    return losses_.run(batch, threads);
  }

 private:
  TapeRunner losses_;
  Generator& generator_;
  GeneratedRows& rows_;
};

// Losses alone, of a run that generates with other weights.
class NotGeneratingRunner final : public BatchRunner {
 public:
  NotGeneratingRunner(const Tape& losses, GeneratedRows& rows) : losses_(losses), rows_(rows) {}

  Status run(const Batch& batch, Threads& threads, DecodingWatch*) noexcept override {
    rows_.clear();
    return losses_.run(batch, threads);
  }

 private:
  TapeRunner losses_;
  GeneratedRows& rows_;
};

}  // namespace bascule
