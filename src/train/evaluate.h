// SPDX-License-Identifier: Apache-2.0
// Evaluation of one split: its batches through the tape, and what judged_split.h makes of them. What was computed per
// row stays for prediction. With data.on_bad_sample = "skip" rows with a bad picture are left out.
//
// The ranks of a node share the memory: each evaluates whole batches and puts what it computes in its place; then the
// nodes' parts are put together, and rank 0 makes the metrics of it, with the same bits as a run of one process.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/span.h"
#include "src/distributed/group.h"
#include "src/loader/loader.h"
#include "src/models/bridgetower.h"
#include "src/report/progress.h"
#include "src/report/step_record.h"
#include "src/runtime/tape.h"
#include "src/train/agreement.h"
#include "src/train/judged_split.h"

namespace bascule {

// A ring slot's batch as a tape takes it.
BatchView view_of(const Batch& batch);

class Evaluation {
 public:
  using Shape = JudgedSplit::Shape;

  // memory: bytes(shape), 64-byte aligned, shared by the ranks of a node. Before the seal.
  Evaluation(const Shape& shape, const Tape& tape, const BridgeTowerOutputs& outputs, std::byte* memory,
             GemmCache& products, Group& group);
  static std::size_t bytes(const Shape& shape) { return JudgedSplit::bytes(shape); }

  // The whole split, rows in order, by all ranks together; the metrics are for rank 0. After the seal. `stop`: a
  // signal's number when one has come to this rank; then kStopped in all. kBadSample: no row could be judged.
  Status run(Stream& stream, const Manifest& manifest, Threads& threads, const volatile int* stop,
             EvaluationRecord* record, Progress* progress) noexcept;

  // Of the split that was run last. At rank 0.
  const JudgedSplit& judged() const { return judged_; }

 private:
  Status run_own_batches(Stream& stream, const Manifest& manifest, Threads& threads, const volatile int* stop,
                         Progress* progress) noexcept;
  Status clear() noexcept;
  BatchOutputs outputs() const noexcept;

  Shape shape_;
  const Tape& tape_;
  BridgeTowerOutputs outputs_;
  Group& group_;
  JudgedSplit judged_;
  Agreement agreement_;
};

}  // namespace bascule
