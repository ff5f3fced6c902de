// SPDX-License-Identifier: Apache-2.0
#include "src/update/gradient_ring.h"

#include <algorithm>
#include <utility>

#include "src/base/align.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/distributed/slices.h"
#include "src/update/blocks.h"

namespace bascule {

GradientRing::GradientRing(GradientRingPlan plan, const Tape& tape, std::vector<float*> rings, float* sums,
                           const KernelTable& kernels, Group& group)
    : plan_(std::move(plan)), tape_(tape), rings_(std::move(rings)), sums_(sums), kernels_(kernels), group_(group) {
  BASCULE_CHECK(rings_.size() == static_cast<std::size_t>(group.local_size()) && rings_.size() <= kMostLocalRanks);
  chunks_of_bucket_ = {0};
  std::size_t first = 0;
  for (const GradientRingPlan::Bucket& bucket : plan_.buckets) {
    steps_.push_back(tape.steps_below(bucket.end_node));
    share_out_bucket(first, static_cast<std::size_t>(bucket.pieces_end));
    chunks_of_bucket_.push_back(static_cast<std::int64_t>(chunks_.size()));
    first = static_cast<std::size_t>(bucket.pieces_end);
  }
  sum_step_ = {sum_chunk, chunk_tasks, this, 0};
}

// Equal parts of the bucket's elements, whatever the pieces: this rank's, cut at the pieces' bounds.
void GradientRing::share_out_bucket(std::size_t first_piece, std::size_t end_piece) {
  constexpr std::int64_t kLine = kCacheLine / sizeof(float);
  std::int64_t lines = 0;
  for (std::size_t p = first_piece; p < end_piece; ++p) lines += divide_up(plan_.pieces[p].elements, kLine);
  const BlockRange own = slice_of(lines, group_.local_rank(), group_.local_size());
  std::int64_t piece_begin = 0;  // in lines of the bucket
  for (std::size_t p = first_piece; p < end_piece; ++p) {
    const GradientRingPlan::Piece& piece = plan_.pieces[p];
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

std::int64_t GradientRing::chunk_tasks(const void* self, const Replay&) {
  const GradientRing& ring = *static_cast<const GradientRing*>(self);
  return ring.chunks_of_bucket_[ring.bucket_ + 1] - ring.chunks_of_bucket_[ring.bucket_];
}

void GradientRing::sum_chunk(const void* self, const Replay&, std::int64_t task, int) {
  const GradientRing& ring = *static_cast<const GradientRing*>(self);
  const Chunk& chunk = ring.chunks_[static_cast<std::size_t>(ring.chunks_of_bucket_[ring.bucket_] + task)];
  const float* terms[kMostLocalRanks];
  for (std::size_t rank = 0; rank < ring.rings_.size(); ++rank) terms[rank] = ring.rings_[rank] + chunk.ring_offset;
  ring.kernels_.sum_terms(
      {ring.sums_ + chunk.offset, terms, static_cast<std::int64_t>(ring.rings_.size()), chunk.count});
}

// One meeting a bucket: whoever comes to the next one has read this bucket, whose places are free only then.
bool GradientRing::sum_bucket(std::size_t bucket, Threads& threads) noexcept {
  const double began = monotonic_seconds();
  group_.set_phase(RankPhase::kReducing);
  if (!group_.local_barrier()) return false;
  bucket_ = bucket;
  threads.replay(Span<const Step>(&sum_step_, 1), Replay{}, {}, static_cast<std::int64_t>(steps_[bucket]));
  group_.set_phase(RankPhase::kComputing);
  reduction_seconds_ += monotonic_seconds() - began;
  return true;
}

bool GradientRing::replay(Threads& threads, const Replay& replay) noexcept {
  reduction_seconds_ = 0.0;
  std::size_t done = 0;
  for (std::size_t b = 0; b < steps_.size(); ++b) {
    tape_.replay_part(threads, replay, done, steps_[b]);
    done = steps_[b];
    if (!sum_bucket(b, threads)) return false;
  }
  tape_.replay_part(threads, replay, done, tape_.step_count());
  return true;
}

void GradientRing::zero_bucket(std::size_t bucket) noexcept {
  const std::int64_t first = bucket == 0 ? 0 : plan_.buckets[bucket - 1].pieces_end;
  float* const own = rings_[static_cast<std::size_t>(group_.local_rank())];
  for (std::int64_t p = first; p < plan_.buckets[bucket].pieces_end; ++p) {
    const GradientRingPlan::Piece& piece = plan_.pieces[static_cast<std::size_t>(p)];
    std::fill_n(own + piece.ring_offset, piece.elements, 0.0f);
  }
}

bool GradientRing::replay_without_samples(Threads& threads) noexcept {
  reduction_seconds_ = 0.0;
  for (std::size_t b = 0; b < steps_.size(); ++b) {
    zero_bucket(b);
    if (!sum_bucket(b, threads)) return false;
  }
  return true;
}

}  // namespace bascule
