// SPDX-License-Identifier: Apache-2.0
// A stream of batches as the step sees it: those of epoch 0, then those of epoch 1, and so on, without a gap. Batch
// `number` of a stream is batch number % batches_per_epoch() of epoch number / batches_per_epoch(). One thread at a
// time may call a stream; all but restore_replacements() may be called after the seal.
#pragma once

#include <cstdint>

#include "src/base/span.h"
#include "src/base/status.h"
#include "src/data/batch.h"
#include "src/data/replacements.h"

namespace bascule {

struct StreamStatistics {
  std::int64_t batches = 0;        // that next() gave
  std::int64_t samples = 0;        // in them
  std::int64_t bad_samples = 0;    // rows found bad in them; with skip each has been replaced
  double step_wait_seconds = 0.0;  // next() had to wait, or with workers = 0 to load
  double mean_occupancy = 0.0;     // ready slots when next() is called, of LoaderPlan's `slots`
};

class Stream {
 public:
  // Batches of an epoch that this rank has a share in, empty shares counted.
  std::int64_t batches_per_epoch() const noexcept;
  // Samples of an epoch, all ranks.
  std::int64_t samples_per_epoch() const noexcept;

  // Gives batches first .. end - 1 from now on; what was under way is dropped. Requires that no batch is lent.
  void start(std::int64_t first, std::int64_t end) noexcept;
  // Waits for the next batch and lends it. Requires that the one before was released. kEndOfEpoch: all were given.
  // kBadSample (detail: row, reason), kReadFailed (row, errno), kDeviceFailed (row, media_engine_status): of the first
  // sample, in order of position, that failed; again at every further call.
  Status next(const Batch** batch) noexcept;
  // Gives the lent batch back; its memory will be filled anew.
  void release() noexcept;

  // Samples that were replaced in the batches that next() gave, in order of (epoch, position). At most
  // max_replacements.
  Span<const ReplacedSample> replacements() const noexcept;
  // What an earlier process of this run replaced; before the first start().
  void restore_replacements(Span<const ReplacedSample> replaced);
  StreamStatistics statistics() const noexcept;
};

}  // namespace bascule
