// SPDX-License-Identifier: Apache-2.0
#include "src/train/update.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/check.h"
#include "src/train/clock.h"

namespace bascule {

std::vector<Update::Block> Update::cut(const ParameterLayout& layout) {
  std::vector<Block> blocks;
  for (const ParameterLayout::Run& run : layout.runs) {
    for (std::int64_t first = 0; first < run.elements; first += kBlock) {
      const std::int64_t left = run.elements - first;
      blocks.push_back({run.offset + first, left < kBlock ? left : kBlock, run.decayed});
    }
  }
  return blocks;
}

std::size_t Update::block_count(const ParameterLayout& layout) { return cut(layout).size(); }

Update::Update(const ParameterLayout& layout, float* parameters, std::vector<float*> gradients, float* exp_avg,
               float* exp_avg_sq, double* partials, const KernelTable& kernels, Group* group)
    : blocks_(cut(layout)),
      parameters_(parameters),
      gradients_(std::move(gradients)),
      own_gradients_(gradients_[group != nullptr ? static_cast<std::size_t>(group->local_rank()) : 0]),
      exp_avg_(exp_avg),
      exp_avg_sq_(exp_avg_sq),
      partials_(partials),
      kernels_(kernels),
      group_(group) {
  BASCULE_CHECK(gradients_.size() == static_cast<std::size_t>(group != nullptr ? group->local_size() : 1) &&
                gradients_.size() <= kMostLocalRanks);
  take_slices(static_cast<std::int64_t>(blocks_.size()));
  norm_step_ = {norm_block, own_tasks, this, 0};
  adamw_step_ = {adamw_block, own_tasks, this, 0};
  parameter_step_ = {parameter_block, all_tasks, this, 0};
}

// This rank's slice of every bucket of so many blocks.
void Update::take_slices(std::int64_t blocks_of_bucket) {
  const std::int64_t blocks = static_cast<std::int64_t>(blocks_.size());
  const int rank = group_ != nullptr ? group_->local_rank() : 0, ranks = group_ != nullptr ? group_->local_size() : 1;
  own_.clear();
  own_of_bucket_ = {0};
  for (std::int64_t first = 0; first < blocks; first += blocks_of_bucket) {
    const BlockRange slice = slice_of(std::min(blocks_of_bucket, blocks - first), rank, ranks);
    for (std::int64_t i = 0; i < slice.count; ++i) own_.push_back(static_cast<std::int32_t>(first + slice.first + i));
    own_of_bucket_.push_back(static_cast<std::int64_t>(own_.size()));
  }
}

std::vector<std::int64_t> Update::bucket_ends(std::int64_t blocks_of_bucket) const {
  std::vector<std::int64_t> ends;
  const std::int64_t blocks = static_cast<std::int64_t>(blocks_.size());
  for (std::int64_t first = 0; first < blocks; first += blocks_of_bucket) {
    const Block& last = blocks_[static_cast<std::size_t>(std::min(first + blocks_of_bucket, blocks) - 1)];
    ends.push_back(last.offset + last.count);
  }
  return ends;
}

void Update::overlap(std::int64_t blocks_of_bucket, const std::vector<std::int64_t>& marks) {
  take_slices(blocks_of_bucket);
  BASCULE_CHECK(group_ != nullptr && marks.size() + 1 == own_of_bucket_.size());
  reducer_ = std::make_unique<BucketReducer>(*group_, marks, &sum_bucket, this);
}

void Update::begin(std::int64_t number) noexcept {
  if (reducer_) reducer_->begin(number);
}

void Update::sum_bucket(void* self, std::size_t bucket) noexcept {
  const Update& u = *static_cast<const Update*>(self);
  for (std::int64_t i = u.own_of_bucket_[bucket]; i < u.own_of_bucket_[bucket + 1]; ++i)
    u.sum_over_ranks(u.blocks_[static_cast<std::size_t>(u.own_[static_cast<std::size_t>(i)])]);
}

std::int64_t Update::own_tasks(const void* arguments, const Replay&) {
  return static_cast<std::int64_t>(static_cast<const Update*>(arguments)->own_.size());
}

std::int64_t Update::all_tasks(const void* arguments, const Replay&) {
  return static_cast<std::int64_t>(static_cast<const Update*>(arguments)->blocks_.size());
}

// In a fixed tree over the ranks, whoever does it. The sum is in the caches when its squares are added up.
void Update::sum_over_ranks(const Block& block) const noexcept {
  if (gradients_.size() == 1) return;
  const float* terms[kMostLocalRanks];
  for (std::size_t rank = 0; rank < gradients_.size(); ++rank) terms[rank] = gradients_[rank] + block.offset;
  kernels_.sum_terms({own_gradients_ + block.offset, terms, static_cast<std::int64_t>(gradients_.size()), block.count});
}

void Update::norm_block(const void* arguments, const Replay&, std::int64_t task, int) {
  const Update& u = *static_cast<const Update*>(arguments);
  const std::int64_t number = u.own_[static_cast<std::size_t>(task)];
  const Block& block = u.blocks_[static_cast<std::size_t>(number)];
  if (task >= u.summed_) u.sum_over_ranks(block);
  u.kernels_.sum_of_squares({u.partials_ + number, u.own_gradients_ + block.offset, block.count});
}

void Update::parameter_block(const void* arguments, const Replay&, std::int64_t task, int) {
  const Update& u = *static_cast<const Update*>(arguments);
  const Block& block = u.blocks_[static_cast<std::size_t>(task)];
  u.kernels_.sum_of_squares({u.partials_ + task, u.parameters_ + block.offset, block.count});
}

void Update::adamw_block(const void* arguments, const Replay&, std::int64_t task, int) {
  const Update& u = *static_cast<const Update*>(arguments);
  const Block& block = u.blocks_[static_cast<std::size_t>(u.own_[static_cast<std::size_t>(task)])];
  const UpdateSettings& s = u.settings_;
  const double correction1 = 1.0 - std::pow(s.beta1, static_cast<double>(s.step));
  const double correction2 = 1.0 - std::pow(s.beta2, static_cast<double>(s.step));
  AdamW a{};
  a.parameter = u.parameters_ + block.offset;
  a.exp_avg = u.exp_avg_ + block.offset;
  a.exp_avg_sq = u.exp_avg_sq_ + block.offset;
  a.gradient = u.own_gradients_ + block.offset;
  a.count = block.count;
  a.gradient_scale = u.gradient_scale_;
  a.decay = static_cast<float>(1.0 - (block.decayed ? s.learning_rate * s.weight_decay : 0.0));
  a.one_minus_beta1 = static_cast<float>(1.0 - s.beta1);
  a.beta2 = static_cast<float>(s.beta2);
  a.one_minus_beta2 = static_cast<float>(1.0 - s.beta2);
  a.step_size = static_cast<float>(s.learning_rate / correction1);
  a.inverse_sqrt_correction2 = static_cast<float>(1.0 / std::sqrt(correction2));
  a.epsilon = static_cast<float>(s.epsilon);
  u.kernels_.adamw(a);
}

double Update::sum_of_partials() const noexcept {
  double sum = 0.0;
  for (std::size_t i = 0; i < blocks_.size(); ++i) sum += partials_[i];
  return sum;
}

bool Update::parameters_are_finite(Threads& threads) noexcept {
  threads.replay(Span<const Step>(&parameter_step_, 1), Replay{}, {});
  return std::isfinite(sum_of_partials());
}

double Update::run(Threads& threads, const UpdateSettings& settings) noexcept {
  settings_ = settings;
  const double began = monotonic_seconds();
  if (reducer_) summed_ = own_of_bucket_[reducer_->finish()];
  threads.replay(Span<const Step>(&norm_step_, 1), Replay{}, {});
  if (!wait_for_ranks()) return std::nan("");
  const double norm = std::sqrt(sum_of_partials());
  reduction_seconds_ = monotonic_seconds() - began;
  if (!std::isfinite(norm)) return norm;
  // torch.nn.utils.clip_grad_norm_: min(1, max / (norm + 1e-6))
  const double clip = settings.max_grad_norm > 0.0 ? settings.max_grad_norm / (norm + 1e-6) : 1.0;
  gradient_scale_ = static_cast<float>(clip < 1.0 ? clip : 1.0);
  threads.replay(Span<const Step>(&adamw_step_, 1), Replay{}, {});
  return wait_for_ranks() ? norm : std::nan("");
}

}  // namespace bascule
