// SPDX-License-Identifier: Apache-2.0
// Evaluations: how outputs are computed, by one tape or by generating, and the pass over a split.
#pragma once

#include <cstdint>

#include "src/base/batch.h"
#include "src/base/status.h"
#include "src/distributed/agreement.h"
#include "src/distributed/group.h"
#include "src/generate/generator.h"
#include "src/judge/judge.h"
#include "src/loader/loader.h"
#include "src/logs/progress.h"
#include "src/logs/step_record.h"
#include "src/runtime/tape.h"
#include "src/runtime/threads.h"

namespace bascule {

// How the outputs of one batch are computed for the judge: by one tape, or, where a model generates, by several in
// turn.

class BatchRunner {
 public:
  virtual ~BatchRunner() = default;
  // After the seal. The outputs lie where the judge was told at its seal, until the next batch. watch: of texts that
  // are generated; null: nobody follows.
  virtual Status run(const Batch& batch, Threads& threads, DecodingWatch* watch = nullptr) noexcept = 0;
};

class TapeRunner final : public BatchRunner {
 public:
  explicit TapeRunner(const Tape& tape) : tape_(tape) {}
  Status run(const Batch& batch, Threads& threads, DecodingWatch* = nullptr) noexcept override {
    Replay replay;
    replay.batch = batch;
    tape_.replay(threads, replay);
    return ok_status();
  }

 private:
  const Tape& tape_;
};

// Generates a text for each sample of a batch, then computes its losses by another tape: their outputs lie in the
// workspace that all tapes take turns in, so they come last.
class GeneratingRunner final : public BatchRunner {
 public:
  // All outlive this. generator: null: losses alone, of a run that generates with other weights.
  GeneratingRunner(const Tape& losses, Generator* generator, GeneratedRows& rows)
      : losses_(losses), generator_(generator), rows_(rows) {}

  Status run(const Batch& batch, Threads& threads, DecodingWatch* watch) noexcept override {
    if (generator_ == nullptr) {
      rows_.clear();
      return losses_.run(batch, threads);
    }
    if (const int signal = generator_->run(batch, threads, watch); signal != 0)
      return {StatusCode::kStopped, {signal, 0}};
    if (generator_->saw_not_finite()) return {StatusCode::kTextsNotFinite, {0, 0}};
    rows_.take(generator_->search(), batch.counts.samples());
    return losses_.run(batch, threads);
  }

 private:
  TapeRunner losses_;
  Generator* generator_;
  GeneratedRows& rows_;
};

// Evaluation of one split: its batches through a runner, and the judge's figures. Results per row stay for prediction.
// With data.on_bad_sample = "skip", rows with a bad picture are skipped.
//
// The ranks of a node share the judge's memory: each evaluates whole batches and puts what it computes in its place;
// then the nodes' parts are put together, and rank 0 makes the metrics of it, with the same bits as a run of one
// process.

class Evaluation {
 public:
  // judge: sealed, in memory that the ranks of a node share. Before the seal.
  Evaluation(Judge& judge, std::int64_t batch, BatchRunner& runner, Group& group)
      : judge_(judge), batch_(batch), runner_(runner), group_(group), agreement_(group) {}

  // The whole split, rows in order, by all ranks together; the metrics are for rank 0. After the seal. `stop`: a
  // signal's number when one has come to this rank; then kStopped in all. kBadSample: no row could be judged.
  // keeps_predictions: see Judge.
  Status run(Stream& stream, const Manifest& manifest, bool keeps_predictions, Threads& threads,
             const volatile int* stop, EvaluationRecord* record, Progress* progress) noexcept;

 private:
  Status run_own_batches(Stream& stream, const Manifest& manifest, Threads& threads, const volatile int* stop,
                         Progress* progress) noexcept;
  Status clear() noexcept;

  Judge& judge_;
  const std::int64_t batch_;  // rows of one, but for the last
  BatchRunner& runner_;
  Group& group_;
  RankAgreement agreement_;
};

}  // namespace bascule
