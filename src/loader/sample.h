// SPDX-License-Identifier: Apache-2.0
// The fields of a batch beside its pictures: packed texts, keys, masks, labels. Made for a whole batch at
// once, when all its pictures are there and it is known which rows they came from.
#pragma once

#include <cstdint>
#include <vector>

#include "src/index/manifest.h"
#include "src/loader/augmenting.h"
#include "src/loader/masking.h"
#include "src/loader/ring.h"
#include "src/loader/write_text.h"

namespace bascule {

struct SampleSettings {
  // By number; of the first several, where texts of a row follow each other as such.
  std::vector<TextSettings> texts[kMaxTexts];
  bool exchanges_captions = false;  // of some samples, where rows have no labels that say whether they belong
  NegativeSettings negatives;       // read where captions are exchanged
};

// When a slot is opened, slot->place being set: its batch without samples, which for an empty place is all of it.
void begin_batch(Slot* slot) noexcept;

// Completes slot->batch from slot->place and slot->samples, or sets slot->status if a sample failed. The samples that
// were not left out move together. mix: of a stream that leaves out none, whose batches begin with the first of a pair.
// samples_per_epoch: of all ranks. Allocates nothing.
void complete_batch(Slot* slot, const Manifest& manifest, const SampleSettings& settings, const MixSettings& mix,
                    std::int64_t samples_per_epoch, TextScratch& scratch) noexcept;

}  // namespace bascule
