// SPDX-License-Identifier: Apache-2.0
// The state of one stream that workers and step share. Constant but for the slots, whose owner the ring decides.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/span.h"
#include "src/index/manifest.h"
#include "src/index/picture_digest.h"
#include "src/index/picture_folder.h"
#include "src/loader/augmenting.h"
#include "src/loader/batch_order.h"
#include "src/loader/media.h"
#include "src/loader/mixing.h"
#include "src/loader/ring.h"
#include "src/loader/sample.h"
#include "src/loader/slot.h"

namespace bascule {

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
  std::atomic<std::int64_t> busy_ns{0};
};

}  // namespace bascule
