// SPDX-License-Identifier: Apache-2.0
// The texts of a batch as ids, for whoever judges them: by sample of the batch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/generate/token_search.h"

namespace bascule {

class GeneratedRows {
 public:
  // most_ids: of one text, without the start token.
  GeneratedRows(std::int64_t samples, std::int64_t most_ids) : samples_(samples), most_ids_(most_ids) {}

  std::size_t bytes() const noexcept;
  // memory: bytes(), 64-byte aligned.
  void seal(std::byte* memory) noexcept;

  // After the seal. clear(): no text was generated.
  void take(const TokenSearch& search, std::int64_t samples) noexcept;
  void clear() noexcept;

  std::int64_t most_ids() const noexcept { return most_ids_; }
  const std::int32_t* ids() const noexcept { return ids_; }        // (samples, most_ids)
  const std::int32_t* counts() const noexcept { return counts_; }  // of ids; below 0: no text was generated
  const float* scores() const noexcept { return scores_; }

 private:
  const std::int64_t samples_, most_ids_;
  std::int32_t *ids_ = nullptr, *counts_ = nullptr;
  float* scores_ = nullptr;
};

}  // namespace bascule
