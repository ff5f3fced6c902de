// SPDX-License-Identifier: Apache-2.0
#include "src/update/node_lane.h"

#include <time.h>

#include "src/base/clock.h"
#include "src/distributed/lane_reduction.h"
#include "src/distributed/nodes.h"

namespace bascule {
namespace {

// While the network has nothing new: so many looks, and then a sleep.
constexpr int kLooks = 50;
constexpr long kSleepNs = 50'000;

}  // namespace

std::size_t NodeLane::memory_bytes(int nodes, bool is_bf16) {
  return LaneReduction::memory_bytes(nodes, {LaneWork::kReduceAndSpread, is_bf16, 0.0});
}

NodeLane::NodeLane(Group& group, const std::vector<UpdateBlock>& blocks, const OwnBlocks& own, float* gradients,
                   float* parameters, const KernelTable& kernels, const Options& options)
    : group_(group), own_(own) {
  static_assert(kUpdateBlockElements <= LaneReduction::kMostElements);
  const auto lane_over = [&](float* range, LaneWork work, Span<std::byte> memory, bool is_bf16) {
    std::vector<LaneBlock> parts;
    for (std::size_t i = 0; i < own.numbers.size(); ++i) {
      const UpdateBlock& block = blocks[static_cast<std::size_t>(own.numbers[i])];
      parts.push_back({range + block.offset, static_cast<std::int32_t>(block.count), own.owners[i]});
    }
    const LaneKernels terms{kernels.sum_terms, kernels.to_bf16, kernels.from_bf16};
    return std::make_unique<LaneReduction>(group.between_nodes()->lane(), std::move(parts), terms, memory,
                                           LaneOptions{work, is_bf16, 0.0});
  };
  const LaneWork work = options.shares_out ? LaneWork::kReduce : LaneWork::kReduceAndSpread;
  sums_ = lane_over(gradients, work, options.memory, options.is_bf16);
  if (!options.shares_out) return;
  weights_ = lane_over(parameters, LaneWork::kSpread, {}, false);
  own_numbers_.resize(own.numbers.size());
}

NodeLane::~NodeLane() = default;

void NodeLane::begin() noexcept {
  wire_seconds_ = 0.0;
  sums_->begin();
}

bool NodeLane::advance(std::size_t ready) noexcept { return sums_->advance(ready); }

bool NodeLane::sum() noexcept { return move_all(*sums_); }

// Until all is where it belongs.
bool NodeLane::move_all(LaneReduction& lane) noexcept {
  const double began = monotonic_seconds();
  for (int looks = 0; !lane.is_done(); ++looks) {
    if (group_.has_failed()) return false;
    if (!lane.has_failed() && lane.advance(own_.numbers.size())) looks = 0;
    if (looks < kLooks) continue;
    if (!lane.has_failed()) group_.heart().beat();  // else the silence tells
    const timespec pause{0, kSleepNs};
    nanosleep(&pause, nullptr);
  }
  wire_seconds_ += monotonic_seconds() - began;
  return true;
}

bool NodeLane::merge(double* of_blocks) noexcept {
  if (!weights_) return true;
  for (std::size_t i = 0; i < own_.numbers.size(); ++i)
    own_numbers_[i] = own_.owners[i] == group_.node() ? of_blocks[own_.numbers[i]] : 0.0;
  if (!group_.between_nodes()->merge(Span<double>(own_numbers_))) return false;
  for (std::size_t i = 0; i < own_.numbers.size(); ++i) of_blocks[own_.numbers[i]] = own_numbers_[i];
  return true;
}

bool NodeLane::spread_weights() noexcept {
  if (!weights_) return true;
  weights_->begin();
  return move_all(*weights_);
}

std::int64_t NodeLane::sent_bytes() const noexcept {
  return sums_->sent_bytes() + (weights_ ? weights_->sent_bytes() : 0);
}

std::int64_t NodeLane::received_bytes() const noexcept {
  return sums_->received_bytes() + (weights_ ? weights_->received_bytes() : 0);
}

}  // namespace bascule
