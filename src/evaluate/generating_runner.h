// SPDX-License-Identifier: Apache-2.0
// Computes a batch's losses by one tape, then generates a text for each of its samples.
#pragma once

#include "src/evaluate/batch_runner.h"
#include "src/generate/generated_rows.h"
#include "src/generate/generator.h"

namespace bascule {

class GeneratingRunner final : public BatchRunner {
 public:
  // stop: of the run; where it is not 0 any more, the batch ends with kStopped. All outlive this.
  GeneratingRunner(const Tape& losses, Generator& generator, GeneratedRows& rows, const volatile int* stop)
      : losses_(losses), generator_(generator), rows_(rows), stop_(stop) {}

  Status run(const Batch& batch, Threads& threads, DecodingWatch* watch) noexcept override {
    BASCULE_TRY(losses_.run(batch, threads));
    generator_.run(batch, threads, stop_, watch);
    if (const int signal = *stop_; signal != 0) return {StatusCode::kStopped, {signal, 0}};
    rows_.take(generator_.search(), batch.counts.samples());
    return ok_status();
  }

 private:
  TapeRunner losses_;
  Generator& generator_;
  GeneratedRows& rows_;
  const volatile int* stop_;
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
