// SPDX-License-Identifier: Apache-2.0
#include "src/update/fused_update.h"

#include <algorithm>

#include "src/base/check.h"

namespace bascule {

std::vector<std::int64_t> FusedUpdate::part_begins(const ParameterLayout& layout) {
  std::vector<std::int64_t> begins;
  for (const ParameterLayout::Place& place : layout.places) {
    if (place.trained) begins.push_back(place.offset);
  }
  std::sort(begins.begin(), begins.end());
  return begins;
}

FusedUpdate::FusedUpdate(const GradientRingPlan& plan, const ParameterLayout& layout, float* ring, Update& update)
    : update_(update) {
  const std::vector<UpdateBlock>& blocks = update.blocks();
  std::size_t next = 0;
  const auto block_at = [&](std::int64_t offset) {
    while (next < blocks.size() && blocks[next].offset < offset) ++next;
    BASCULE_CHECK(next == blocks.size() || blocks[next].offset == offset);
    return next;
  };
  const std::vector<std::int64_t> begins = part_begins(layout);
  for (std::size_t i = 0; i < begins.size(); ++i) {
    const std::int64_t end = i + 1 < begins.size() ? begins[i + 1] : layout.trained_elements;
    const std::size_t first = block_at(begins[i]);
    Part part{first, block_at(end), 0, end - begins[i], ring};
    // Parameters with a gradient come first, in this order too.
    if (i < plan.pieces.size()) {
      BASCULE_CHECK(plan.pieces[i].offset == begins[i]);
      part.elements = plan.pieces[i].elements;
      part.gradient = ring + plan.pieces[i].ring_offset;
    }
    parts_.push_back(part);
  }
  for (const GradientRingPlan::Bucket& bucket : plan.buckets)
    end_of_bucket_.push_back(static_cast<std::size_t>(bucket.pieces_end));
}

void FusedUpdate::begin(const UpdateSettings& settings) noexcept {
  settings_ = settings;
  is_finite_ = true;
}

void FusedUpdate::update_part(const Part& part, std::int64_t step, Threads& threads) noexcept {
  std::fill(part.gradient + part.elements, part.gradient + part.room, 0.0f);
  is_finite_ = update_.run_part(threads, settings_, part.first, part.end, part.gradient, step) && is_finite_;
}

bool FusedUpdate::act(std::size_t bucket, std::int64_t step, Threads& threads) noexcept {
  const std::size_t first = bucket == 0 ? 0 : end_of_bucket_[bucket - 1];
  for (std::size_t i = first; i < end_of_bucket_[bucket] && is_finite_; ++i) update_part(parts_[i], step, threads);
  return true;
}

double FusedUpdate::finish(Threads& threads) noexcept {
  const std::size_t first = end_of_bucket_.empty() ? 0 : end_of_bucket_.back();
  for (std::size_t i = first; i < parts_.size() && is_finite_; ++i) update_part(parts_[i], 0, threads);
  return update_.norm_of_parts(settings_);
}

}  // namespace bascule
