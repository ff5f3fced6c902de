// SPDX-License-Identifier: Apache-2.0
// A stream of batches: its state, and samples that stand in for bad ones.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/batch.h"
#include "src/base/span.h"
#include "src/base/status.h"
#include "src/index/manifest.h"
#include "src/index/picture_folder.h"
#include "src/loader/augmenting.h"
#include "src/loader/media.h"
#include "src/loader/ring.h"
#include "src/loader/sample.h"
#include "src/loader/sampler.h"

namespace bascule {

// The state of one stream that workers and step share. Constant but for the slots, whose owner the ring decides.

struct StreamState {
  // Before the seal. Throws Error (kData) where the pictures' folder cannot be opened.
  StreamState(const Manifest& of_manifest, const BatchDealing& dealing, const SampleSettings& sample_settings,
              bool has_pictures, const RandomCrops& of_crops, const Augmenting& of_changes,
              const MixSettings& mix_settings, std::vector<Slot> of_slots, Span<PictureDigest> of_pictures)
      : manifest(of_manifest),
        order(dealing),
        samples(sample_settings),
        crops(of_crops),
        augmenting(of_changes),
        mix(mix_settings),
        slots(std::move(of_slots)),
        ring(order, static_cast<std::int64_t>(slots.size())),
        digests(of_pictures) {
    if (has_pictures) folder.emplace(of_manifest);
  }

  Slot& slot(std::int64_t number) noexcept { return slots[ring.slot_of(number)]; }

  const Manifest& manifest;
  const BatchOrder order;
  const SampleSettings samples;
  const RandomCrops crops;
  const Augmenting augmenting;
  const MixSettings mix;
  std::optional<PictureFolder> folder;  // none where samples have no pictures
  std::vector<Slot> slots;
  Ring ring;
  const Span<PictureDigest> digests;  // by image id; empty: none are kept
  // By all workers, so far: samples that were loaded or left out, and what that took (see StreamStatistics).
  std::atomic<std::int64_t> loaded_samples{0};
  std::atomic<std::int64_t> processor_ns{0}, blocked_ns{0};
};

// A stream of batches as the step sees it: those of epoch 0, then those of epoch 1, and so on, without a gap. Batch
// `number` of a stream is batch number % batches_per_epoch() of epoch number / batches_per_epoch(). One thread at a
// time may call a stream; all but restore_replacements() may be called after the seal.

struct StreamStatistics {
  std::int64_t batches = 0;  // that next() gave
  std::int64_t samples = 0;  // in them
  // Training: of them that were replaced, those of earlier processes of this run among them. Evaluation: left out since
  // start().
  std::int64_t bad_samples = 0;
  double step_wait_seconds = 0.0;  // next() had to wait, or with workers = 0 to load
  double mean_occupancy = 0.0;     // ready slots when next() is called, of LoaderPlan's `slots`
  // Loaded by the workers, also those that no step has asked for yet, and the seconds that this took them: processor
  // time, and waiting for files and for a media engine with a device, but not for a core; divided by the workers.
  std::int64_t loaded_samples = 0;
  double loading_seconds = 0.0;
  double processor_seconds = 0.0;  // of all workers: without the waiting, not divided
};

// Samples a second that the workers would load between two moments if neither a step held them up nor anything else
// wanted their cores. NaN where it was not measured: the steps took samples that had been loaded before, and the
// workers loaded less than half as many.
double deliverable_samples_per_second(const StreamStatistics& from, const StreamStatistics& to) noexcept;

class LabelCount;
class Workers;
struct StreamState;

class Stream : NonCopyable {
 public:
  // Made by the loader, before the seal. `listed` is memory for the list of replaced samples. counts: null where no
  // labels are counted ahead.
  Stream(StreamState& state, Workers& workers, Span<ReplacedSample> listed, LabelCount* counts);

  // Batches of an epoch that this rank has a share in, empty shares counted.
  std::int64_t batches_per_epoch() const noexcept;
  // Samples of an epoch, all ranks.
  std::int64_t samples_per_epoch() const noexcept;

  // Gives batches first .. end - 1 from now on; what was under way is dropped. Requires that no batch is lent. An
  // evaluation begins its list of replacements anew.
  void start(std::int64_t first, std::int64_t end) noexcept;
  // Waits for the next batch and lends it. Requires that the one before was released. kEndOfEpoch: all were given.
  // kBadSample (detail: row, reason), kReadFailed (row, errno), kLongText (row, tokens), kDeviceFailed (row,
  // media_engine_status): of the first sample, in order of position, that failed; again at every further call.
  Status next(const Batch** batch) noexcept;
  // Labelled tokens of the lent batch and the batches behind it, so many together, which may not be loaded yet.
  // Requires LoaderSettings::counts_labels_ahead.
  std::int64_t labelled_ahead(std::int64_t batches) noexcept;
  // Gives the lent batch back; its memory will be filled anew.
  void release() noexcept;

  // Samples that were replaced, or left out, in the batches that next() gave, each once, in order of the first time. At
  // most max_replacements; what is beyond them is counted in StreamStatistics::bad_samples.
  Span<const ReplacedSample> replacements() const noexcept;
  // The replacements of earlier processes of this run, and their total number; before the first start().
  void restore_replacements(Span<const ReplacedSample> replaced, std::int64_t bad_samples);
  StreamStatistics statistics() const noexcept;

 private:
  void open_next() noexcept;
  void wait_for_batch() noexcept;
  void list_failure(std::int64_t number) noexcept;
  void list_replacements(std::int64_t number) noexcept;
  bool is_listed(std::int64_t epoch, std::int64_t position) const noexcept;

  StreamState& state_;
  Workers& workers_;
  LabelCount* const counts_;
  Span<ReplacedSample> listed_;
  std::size_t listed_count_ = 0;
  std::int64_t next_ = 0;    // batch that next() gives
  std::int64_t opened_ = 0;  // batches below this have been opened
  std::int64_t end_ = 0;
  bool is_lent_ = false;
  StreamStatistics statistics_;
  std::int64_t calls_ = 0;      // of next(), while batches were left
  std::int64_t occupancy_ = 0;  // sum over these
};

}  // namespace bascule
