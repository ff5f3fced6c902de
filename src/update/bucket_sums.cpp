// SPDX-License-Identifier: Apache-2.0
#include "src/update/bucket_sums.h"

#include <algorithm>
#include <utility>

#include "src/base/align.h"
#include "src/base/check.h"
#include "src/distributed/slices.h"
#include "src/runtime/run_tasks.h"
#include "src/update/blocks.h"

namespace bascule {

BucketSums::BucketSums(const GradientRingPlan& plan, std::vector<float*> rings, int local_rank, float* sums,
                       const KernelTable& kernels)
    : rings_(std::move(rings)), sums_(sums), kernels_(kernels) {
  BASCULE_CHECK(rings_.size() <= kMostLocalRanks);
  chunks_of_bucket_ = {0};
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    share_out(plan.pieces_of(b), local_rank);
    chunks_of_bucket_.push_back(static_cast<std::int64_t>(chunks_.size()));
  }
}

// Equal parts of the bucket's elements, whatever the pieces: this rank's, cut at the pieces' bounds.
void BucketSums::share_out(Span<const GradientRingPlan::Piece> pieces, int local_rank) {
  constexpr std::int64_t kLine = kCacheLine / sizeof(float);
  std::int64_t lines = 0;
  for (const GradientRingPlan::Piece& piece : pieces) lines += divide_up(piece.elements, kLine);
  const BlockRange own = slice_of(lines, local_rank, static_cast<int>(rings_.size()));
  std::int64_t piece_begin = 0;  // in lines of the bucket
  for (const GradientRingPlan::Piece& piece : pieces) {
    const std::int64_t piece_end = piece_begin + divide_up(piece.elements, kLine);
    const std::int64_t begin = std::max(own.first, piece_begin), end = std::min(own.first + own.count, piece_end);
    for (std::int64_t at = (begin - piece_begin) * kLine; at < (end - piece_begin) * kLine;
         at += kUpdateBlockElements) {
      const std::int64_t last = std::min((end - piece_begin) * kLine, piece.elements);
      chunks_.push_back({piece.ring_offset + at, piece.offset + at, std::min(kUpdateBlockElements, last - at)});
    }
    piece_begin = piece_end;
  }
}

void BucketSums::sum(const Chunk& chunk) const noexcept {
  const float* terms[kMostLocalRanks];
  for (std::size_t rank = 0; rank < rings_.size(); ++rank) terms[rank] = rings_[rank] + chunk.ring_offset;
  kernels_.sum_terms({sums_ + chunk.offset, terms, static_cast<std::int64_t>(rings_.size()), chunk.count});
}

bool BucketSums::act(std::size_t bucket, std::int64_t step, Threads& threads) noexcept {
  const std::int64_t first = chunks_of_bucket_[bucket];
  run_tasks(
      threads, chunks_of_bucket_[bucket + 1] - first,
      [&](std::int64_t task) { sum(chunks_[static_cast<std::size_t>(first + task)]); }, step);
  return true;
}

}  // namespace bascule
