// SPDX-License-Identifier: Apache-2.0
// How the outputs of one batch are computed for the judge: by one tape, or, where a model generates, by several in
// turn.
#pragma once

#include "src/base/batch.h"
#include "src/base/status.h"
#include "src/generate/decoding_watch.h"
#include "src/runtime/tape.h"
#include "src/runtime/threads.h"

namespace bascule {

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

}  // namespace bascule
