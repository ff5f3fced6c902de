// SPDX-License-Identifier: Apache-2.0
// BlockPool: memory in blocks, lent in runs that lie in one piece: the bodies and answers that are larger than a slot.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "src/base/check.h"
#include "src/base/span.h"

namespace bascule {

class BlockPool {
 public:
  static constexpr std::size_t kBlockBytes = 16384;

  // runs: one for each block, whose memory begins at `memory`.
  void attach(char* memory, Span<std::uint32_t> runs) noexcept {
    memory_ = memory;
    runs_ = runs;
    std::fill(runs.begin(), runs.end(), 0u);
  }

  // The first gap that is large enough, or empty. At least one block, so that every run has a place of its own.
  Span<char> take(std::size_t bytes) noexcept {
    const std::size_t blocks = std::max<std::size_t>(1, divide_up(bytes, kBlockBytes));
    for (std::size_t at = 0, gap = 0; at < runs_.size();) {
      if (runs_[at] > 0) {
        at += runs_[at];
        gap = 0;
      } else if (++at, ++gap == blocks) {
        const std::size_t begin = at - blocks;
        runs_[begin] = static_cast<std::uint32_t>(blocks);
        used_blocks_ += blocks;
        return {memory_ + begin * kBlockBytes, bytes};
      }
    }
    return {};
  }

  // Gives back what lies behind the first `bytes` of a run, and all of it with 0.
  void shrink(const char* run, std::size_t bytes) noexcept {
    const std::size_t at = static_cast<std::size_t>(run - memory_) / kBlockBytes;
    const auto kept = static_cast<std::uint32_t>(divide_up(bytes, kBlockBytes));
    BASCULE_CHECK(at < runs_.size() && kept <= runs_[at]);
    used_blocks_ -= runs_[at] - kept;
    runs_[at] = kept;
  }

  std::size_t used_bytes() const noexcept { return used_blocks_ * kBlockBytes; }

 private:
  char* memory_ = nullptr;
  Span<std::uint32_t> runs_;  // at a run's first block its blocks, else 0
  std::size_t used_blocks_ = 0;
};

}  // namespace bascule
