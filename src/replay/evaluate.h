// SPDX-License-Identifier: Apache-2.0
// Evaluation of one split: its batches through a runner, and the judge's figures. Results per row stay for prediction.
// With data.on_bad_sample = "skip", rows with a bad picture are skipped.
//
// The ranks of a node share the judge's memory: each evaluates whole batches and puts what it computes in its place;
// then the nodes' parts are put together, and rank 0 makes the metrics of it, with the same bits as a run of one
// process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/span.h"
#include "src/distributed/agreement.h"
#include "src/distributed/group.h"
#include "src/judge/judge.h"
#include "src/loader/loader.h"
#include "src/logs/progress.h"
#include "src/logs/step_record.h"
#include "src/models/model.h"
#include "src/replay/batch_runner.h"
#include "src/runtime/tape.h"

namespace bascule {

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
