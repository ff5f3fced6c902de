// SPDX-License-Identifier: Apache-2.0
#include "src/update/update.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/align.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/elementary.h"
#include "src/distributed/lane_reduction.h"
#include "src/distributed/nodes.h"

namespace bascule {
namespace {

// While the network has nothing new: so many looks, and then a sleep.
constexpr int kLooks = 50;
constexpr long kSleepNs = 50'000;

}  // namespace

std::vector<Update::Block> Update::cut(const ParameterLayout& layout) {
  std::vector<Block> blocks;
  for (std::size_t number = 0; number < layout.runs.size(); ++number) {
    const ParameterLayout::Run& run = layout.runs[number];
    for (std::int64_t first = 0; first < run.elements; first += kBlock) {
      blocks.push_back({run.offset + first, std::min(run.elements - first, kBlock), run.decayed, run.group,
                        static_cast<std::int32_t>(number)});
    }
  }
  return blocks;
}

// Without a list: layouts are planned that no machine could hold.
std::size_t Update::block_count(const ParameterLayout& layout) {
  std::int64_t count = 0;
  for (const ParameterLayout::Run& run : layout.runs) count += divide_up(run.elements, kBlock);
  return static_cast<std::size_t>(count);
}

Update::Update(const ParameterLayout& layout, float* parameters, std::vector<float*> gradients, float* exp_avg,
               float* exp_avg_sq, double* partials, const KernelTable& kernels, Group* group, Optimizer optimizer)
    : blocks_(cut(layout)),
      parameters_(parameters),
      gradients_(std::move(gradients)),
      own_gradients_(gradients_[gradients_.size() > 1 ? static_cast<std::size_t>(group->local_rank()) : 0]),
      exp_avg_(exp_avg),
      exp_avg_sq_(exp_avg_sq),
      partials_(partials),
      parameter_partials_(optimizer == Optimizer::kLamb ? partials + blocks_.size() : nullptr),
      direction_partials_(optimizer == Optimizer::kLamb ? partials + 2 * blocks_.size() : nullptr),
      kernels_(kernels),
      group_(group) {
  BASCULE_CHECK(gradients_.size() == 1 || (gradients_.size() == static_cast<std::size_t>(group->local_size()) &&
                                           gradients_.size() <= kMostLocalRanks));
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (i == 0 || blocks_[i].run != blocks_[i - 1].run) first_of_run_.push_back(static_cast<std::int32_t>(i));
  }
  first_of_run_.push_back(static_cast<std::int32_t>(blocks_.size()));
  take_slices(static_cast<std::int64_t>(blocks_.size()));
  sum_step_ = {sum_block, unsummed_tasks, this, 0};
  norm_step_ = {norm_block, updated_tasks, this, 0};
  adamw_step_ = {adamw_block, updated_tasks, this, 0};
  direction_step_ = {direction_block, updated_tasks, this, 0};
  lamb_step_ = {lamb_block, updated_tasks, this, 0};
  average_step_ = {average_block, own_tasks, this, 0};
  parameter_step_ = {parameter_block, all_tasks, this, 0};
}

Update::~Update() = default;

std::size_t Update::lane_memory_bytes(int nodes, bool is_bf16) {
  return LaneReduction::memory_bytes(nodes, {LaneWork::kReduceAndSpread, is_bf16, 0.0});
}

// This rank's slice of every bucket of so many blocks. Between nodes the owners of its blocks take turns.
void Update::take_slices(std::int64_t blocks_of_bucket) {
  const std::int64_t blocks = static_cast<std::int64_t>(blocks_.size());
  const int rank = group_ != nullptr ? group_->local_rank() : 0, ranks = group_ != nullptr ? group_->local_size() : 1;
  const int nodes = group_ != nullptr ? group_->nodes() : 1;
  own_.clear();
  owners_.clear();
  updated_.clear();
  own_of_bucket_ = {0};
  for (std::int64_t first = 0; first < blocks; first += blocks_of_bucket) {
    const BlockRange slice = slice_of(std::min(blocks_of_bucket, blocks - first), rank, ranks);
    std::vector<std::int64_t> elements;
    for (std::int64_t i = 0; i < slice.count; ++i)
      elements.push_back(blocks_[static_cast<std::size_t>(first + slice.first + i)].count);
    for (const OwnedBlock& next : owned_in_turn(elements, first / blocks_of_bucket, nodes)) {
      own_.push_back(static_cast<std::int32_t>(first + slice.first + next.block));
      owners_.push_back(next.owner);
      if (shards_ == nullptr || next.owner == group_->node()) updated_.push_back(own_.back());
    }
    own_of_bucket_.push_back(static_cast<std::int64_t>(own_.size()));
  }
  if (!lane_memory_.empty()) make_lane();
}

void Update::make_lane() {
  const auto lane_over = [&](float* range, LaneWork work, Span<std::byte> memory, bool is_bf16) {
    std::vector<LaneBlock> blocks;
    for (std::size_t i = 0; i < own_.size(); ++i) {
      const Block& block = blocks_[static_cast<std::size_t>(own_[i])];
      blocks.push_back({range + block.offset, static_cast<std::int32_t>(block.count), owners_[i]});
    }
    const LaneKernels kernels{kernels_.sum_terms, kernels_.to_bf16, kernels_.from_bf16};
    return std::make_unique<LaneReduction>(group_->between_nodes()->lane(), std::move(blocks), kernels, memory,
                                           LaneOptions{work, is_bf16, 0.0});
  };
  const LaneWork work = shards_ != nullptr ? LaneWork::kReduce : LaneWork::kReduceAndSpread;
  lane_ = lane_over(own_gradients_, work, lane_memory_, is_bf16_);
  if (shards_ == nullptr) return;
  spread_ = lane_over(parameters_, LaneWork::kSpread, {}, false);
  lane_partials_.resize(own_.size());
}

void Update::connect(Span<std::byte> memory, bool is_bf16, const MomentShards* shards) {
  static_assert(kBlock <= LaneReduction::kMostElements);
  BASCULE_CHECK(group_ != nullptr && group_->nodes() > 1 && !reducer_);
  lane_memory_ = memory;
  is_bf16_ = is_bf16;
  shards_ = shards;
  take_slices(static_cast<std::int64_t>(blocks_.size()));
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
  BASCULE_CHECK(group_ != nullptr && shards_ == nullptr && marks.size() + 1 == own_of_bucket_.size());
  reducer_ = std::make_unique<BucketReducer>(*group_, marks,
                                             BucketReducer::Work{&sum_bucket, lane_ ? &move_buckets : nullptr, this});
}

void Update::begin(std::int64_t number) noexcept {
  if (lane_) lane_->begin();
  if (reducer_) reducer_->begin(number);
}

void Update::rest() noexcept {
  if (reducer_) reducer_->finish();
}

void Update::sum_bucket(void* self, std::size_t bucket) noexcept {
  const Update& u = *static_cast<const Update*>(self);
  for (std::int64_t i = u.own_of_bucket_[bucket]; i < u.own_of_bucket_[bucket + 1]; ++i)
    u.sum_over_ranks(u.blocks_[static_cast<std::size_t>(u.own_[static_cast<std::size_t>(i)])]);
}

bool Update::move_buckets(void* self, std::size_t summed) noexcept {
  Update& u = *static_cast<Update*>(self);
  return u.lane_->advance(static_cast<std::size_t>(u.own_of_bucket_[summed]));
}

std::int64_t Update::updated_tasks(const void* arguments, const Replay&) {
  return static_cast<std::int64_t>(static_cast<const Update*>(arguments)->updated_.size());
}

std::int64_t Update::unsummed_tasks(const void* arguments, const Replay&) {
  const Update& u = *static_cast<const Update*>(arguments);
  return static_cast<std::int64_t>(u.own_.size()) - u.summed_;
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

void Update::sum_block(const void* arguments, const Replay&, std::int64_t task, int) {
  const Update& u = *static_cast<const Update*>(arguments);
  u.sum_over_ranks(u.blocks_[static_cast<std::size_t>(u.own_[static_cast<std::size_t>(u.summed_ + task)])]);
}

void Update::norm_block(const void* arguments, const Replay&, std::int64_t task, int) {
  const Update& u = *static_cast<const Update*>(arguments);
  const std::int64_t number = u.updated_[static_cast<std::size_t>(task)];
  const Block& block = u.blocks_[static_cast<std::size_t>(number)];
  if (task >= u.summed_) u.sum_over_ranks(block);
  u.kernels_.sum_of_squares({u.partials_ + number, u.own_gradients_ + block.offset, block.count});
}

void Update::parameter_block(const void* arguments, const Replay&, std::int64_t task, int) {
  const Update& u = *static_cast<const Update*>(arguments);
  const Block& block = u.blocks_[static_cast<std::size_t>(task)];
  u.kernels_.sum_of_squares({u.partials_ + task, u.parameters_ + block.offset, block.count});
}

std::size_t Update::moments_of(std::size_t block) const noexcept {
  return static_cast<std::size_t>(shards_ != nullptr ? shards_->blocks[block].place : blocks_[block].offset);
}

double Update::learning_rate_of(const Block& block) const noexcept {
  return settings_.learning_rate *
         (block.group < 0 ? 1.0 : settings_.groups[static_cast<std::size_t>(block.group)].learning_rate_multiplier);
}

double Update::weight_decay_of(const Block& block) const noexcept {
  const double of_group = block.group < 0 ? -1.0 : settings_.groups[static_cast<std::size_t>(block.group)].weight_decay;
  return of_group >= 0.0 ? of_group : block.decayed ? settings_.weight_decay : 0.0;
}

void Update::adamw_block(const void* arguments, const Replay&, std::int64_t task, int) {
  const Update& u = *static_cast<const Update*>(arguments);
  const std::size_t number = static_cast<std::size_t>(u.updated_[static_cast<std::size_t>(task)]);
  const Block& block = u.blocks_[number];
  const std::size_t moments = u.moments_of(number);
  const UpdateSettings& s = u.settings_;
  if (s.observer != nullptr) s.observer->see(number, u.parameters_, u.own_gradients_);
  const double learning_rate = u.learning_rate_of(block), weight_decay = u.weight_decay_of(block);
  AdamW a{};
  a.parameter = u.parameters_ + block.offset;
  a.exp_avg = u.exp_avg_ + moments;
  a.exp_avg_sq = u.exp_avg_sq_ + moments;
  a.gradient = u.own_gradients_ + block.offset;
  a.count = block.count;
  a.gradient_scale = u.gradient_scale_;
  a.decay = static_cast<float>(1.0 - learning_rate * weight_decay);
  a.one_minus_beta1 = static_cast<float>(1.0 - s.beta1);
  a.beta2 = static_cast<float>(s.beta2);
  a.one_minus_beta2 = static_cast<float>(1.0 - s.beta2);
  a.step_size = static_cast<float>(learning_rate / u.correction1_);
  a.inverse_sqrt_correction2 = u.inverse_sqrt_correction2_;
  a.epsilon = static_cast<float>(s.epsilon);
  u.kernels_.adamw(a);
}

// The gradient becomes the direction; both norms are measured while the block is in the caches.
void Update::direction_block(const void* arguments, const Replay&, std::int64_t task, int) {
  const Update& u = *static_cast<const Update*>(arguments);
  const std::size_t number = static_cast<std::size_t>(u.updated_[static_cast<std::size_t>(task)]);
  const Block& block = u.blocks_[number];
  const std::size_t moments = u.moments_of(number);
  const UpdateSettings& s = u.settings_;
  if (s.observer != nullptr) s.observer->see(number, u.parameters_, u.own_gradients_);
  LambDirection a{};
  a.parameter = u.parameters_ + block.offset;
  a.exp_avg = u.exp_avg_ + moments;
  a.exp_avg_sq = u.exp_avg_sq_ + moments;
  a.gradient = u.own_gradients_ + block.offset;
  a.count = block.count;
  a.gradient_scale = u.gradient_scale_;
  a.weight_decay = static_cast<float>(u.weight_decay_of(block));
  a.one_minus_beta1 = static_cast<float>(1.0 - s.beta1);
  a.beta2 = static_cast<float>(s.beta2);
  a.one_minus_beta2 = static_cast<float>(1.0 - s.beta2);
  a.inverse_correction1 = static_cast<float>(1.0 / u.correction1_);
  a.inverse_sqrt_correction2 = u.inverse_sqrt_correction2_;
  a.epsilon = static_cast<float>(s.epsilon);
  u.kernels_.lamb_direction(a);
  u.kernels_.sum_of_squares({u.parameter_partials_ + number, a.parameter, block.count});
  u.kernels_.sum_of_squares({u.direction_partials_ + number, a.gradient, block.count});
}

// The trust ratio of the tensor, summed over its blocks in order; 1 if nothing decays it or either norm is 0.
double Update::trust_ratio(std::int32_t run, double weight_decay) const noexcept {
  if (weight_decay == 0.0) return 1.0;
  double parameters = 0.0, direction = 0.0;
  const std::size_t end = static_cast<std::size_t>(first_of_run_[static_cast<std::size_t>(run) + 1]);
  for (std::size_t i = static_cast<std::size_t>(first_of_run_[static_cast<std::size_t>(run)]); i < end; ++i) {
    parameters += parameter_partials_[i];
    direction += direction_partials_[i];
  }
  return parameters > 0.0 && direction > 0.0 ? std::sqrt(parameters) / std::sqrt(direction) : 1.0;
}

void Update::lamb_block(const void* arguments, const Replay&, std::int64_t task, int) {
  const Update& u = *static_cast<const Update*>(arguments);
  const Block& block = u.blocks_[static_cast<std::size_t>(u.updated_[static_cast<std::size_t>(task)])];
  const double ratio = u.trust_ratio(block.run, u.weight_decay_of(block));
  u.kernels_.lamb_step({u.parameters_ + block.offset, u.own_gradients_ + block.offset, block.count,
                        static_cast<float>(u.learning_rate_of(block) * ratio)});
}

// Averages a block of this rank, also one that another node has updated and sent.
void Update::average_block(const void* arguments, const Replay&, std::int64_t task, int) {
  const Update& u = *static_cast<const Update*>(arguments);
  const Block& block = u.blocks_[static_cast<std::size_t>(u.own_[static_cast<std::size_t>(task)])];
  const float* const values = u.parameters_ + block.offset;
  if (u.settings_.average_share == 1.0) {  // in floating point the formula would not copy exactly
    std::copy_n(values, block.count, u.averages_ + block.offset);
  } else {
    u.kernels_.average(
        {u.averages_ + block.offset, values, block.count, static_cast<float>(u.settings_.average_share)});
  }
}

// Every rank needs the norms of all blocks of a tensor of which it has one.
bool Update::move_by_lamb(Threads& threads) noexcept {
  threads.replay(Span<const Step>(&direction_step_, 1), Replay{}, {});
  if (!merge_partials(parameter_partials_) || !merge_partials(direction_partials_) || !wait_for_ranks()) return false;
  threads.replay(Span<const Step>(&lamb_step_, 1), Replay{}, {});
  return true;
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

// Sums the gradients not yet summed on this node, then those not yet summed with the other nodes. False: the run has
// failed.
bool Update::sum_over_nodes(Threads& threads) noexcept {
  threads.replay(Span<const Step>(&sum_step_, 1), Replay{}, {});
  summed_ = static_cast<std::int64_t>(own_.size());
  return move_all(*lane_);
}

// Until all is where it belongs.
bool Update::move_all(LaneReduction& lane) noexcept {
  const double began = monotonic_seconds();
  for (int looks = 0; !lane.is_done(); ++looks) {
    if (group_->has_failed()) return false;
    if (!lane.has_failed() && lane.advance(own_.size())) looks = 0;
    if (looks < kLooks) continue;
    if (!lane.has_failed()) group_->heart().beat();  // else the silence tells
    const timespec pause{0, kSleepNs};
    nanosleep(&pause, nullptr);
  }
  wire_seconds_ += monotonic_seconds() - began;
  return true;
}

// Merges the measurements of other nodes.
bool Update::merge_partials(double* partials) noexcept {
  if (shards_ == nullptr) return true;
  for (std::size_t i = 0; i < own_.size(); ++i)
    lane_partials_[i] = owners_[i] == group_->node() ? partials[own_[i]] : 0.0;
  if (!group_->between_nodes()->merge(Span<double>(lane_partials_))) return false;
  for (std::size_t i = 0; i < own_.size(); ++i) partials[own_[i]] = lane_partials_[i];
  return true;
}

bool Update::spread_weights() noexcept {
  if (!spread_) return true;
  spread_->begin();
  return move_all(*spread_);
}

std::int64_t Update::sent_bytes() const noexcept {
  return (lane_ ? lane_->sent_bytes() : 0) + (spread_ ? spread_->sent_bytes() : 0);
}

std::int64_t Update::received_bytes() const noexcept {
  return (lane_ ? lane_->received_bytes() : 0) + (spread_ ? spread_->received_bytes() : 0);
}

double Update::run(Threads& threads, const UpdateSettings& settings) noexcept {
  settings_ = settings;
  const double step = static_cast<double>(settings.step);
  correction1_ = 1.0 - fixed_power(settings.beta1, step);
  inverse_sqrt_correction2_ = static_cast<float>(1.0 / std::sqrt(1.0 - fixed_power(settings.beta2, step)));
  const double began = monotonic_seconds();
  wire_seconds_ = 0.0;
  summed_ = reducer_ ? own_of_bucket_[reducer_->finish()] : 0;
  if (lane_ && !sum_over_nodes(threads)) return std::nan("");
  threads.replay(Span<const Step>(&norm_step_, 1), Replay{}, {});
  if (!merge_partials(partials_) || !wait_for_ranks()) return std::nan("");
  const double norm = settings.gradient_factor * std::sqrt(sum_of_partials());
  reduction_seconds_ = monotonic_seconds() - began;
  if (!std::isfinite(norm)) return norm;
  // torch.nn.utils.clip_grad_norm_: min(1, max / (norm + 1e-6))
  const double clip = settings.max_grad_norm > 0.0 ? settings.max_grad_norm / (norm + 1e-6) : 1.0;
  gradient_scale_ = static_cast<float>(settings.gradient_factor * std::min(clip, 1.0));
  if (parameter_partials_ == nullptr) {
    threads.replay(Span<const Step>(&adamw_step_, 1), Replay{}, {});
  } else if (!move_by_lamb(threads)) {
    return std::nan("");
  }
  if (!spread_weights()) return std::nan("");
  if (averages_ != nullptr && settings.average_share > 0.0)
    threads.replay(Span<const Step>(&average_step_, 1), Replay{}, {});
  return wait_for_ranks() ? norm : std::nan("");
}

}  // namespace bascule
