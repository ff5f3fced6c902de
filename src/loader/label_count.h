// SPDX-License-Identifier: Apache-2.0
// Counts the labelled tokens of batches that are not loaded yet, by masking their texts as a worker will. For losses
// that add a mean over them to a mean over something else: how such an update's batches weigh must be known before the
// first of them is computed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/span.h"
#include "src/loader/batch_order.h"
#include "src/loader/sample.h"

namespace bascule {

class LabelCount {
 public:
  // worker_scratch: of a TextScratch. A multiple of 64.
  static std::size_t bytes(std::size_t worker_scratch, std::int64_t longest_text) noexcept;
  // Requires `bytes` of memory, 64-byte aligned.
  LabelCount(Span<std::byte> memory, std::int64_t longest_text) noexcept;

  // Those of this rank's batches [first, end) of a stream whose samples are texts alone, so that none is replaced.
  // Allocates nothing.
  std::int64_t of(const Manifest& manifest, const SampleSettings& settings, const BatchOrder& order, std::int64_t first,
                  std::int64_t end) noexcept;

 private:
  Span<std::int32_t> ids_;
  TextScratch scratch_;
};

}  // namespace bascule
