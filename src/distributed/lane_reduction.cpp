// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/lane_reduction.h"

#include <utility>

#include "src/base/check.h"
#include "src/base/clock.h"

namespace bascule {
namespace {

constexpr std::size_t kPartBytes = static_cast<std::size_t>(LaneReduction::kMostElements) * sizeof(float);

float* floats(std::byte* memory) noexcept { return static_cast<float*>(static_cast<void*>(memory)); }
std::uint16_t* halves(std::byte* memory) noexcept { return static_cast<std::uint16_t*>(static_cast<void*>(memory)); }

}  // namespace

// A part of each peer for every owned block under way. In bf16 also what is sent and received of others' blocks.
std::size_t LaneReduction::memory_bytes(int nodes, const LaneOptions& options) {
  const std::size_t peers = static_cast<std::size_t>(nodes - 1);
  const std::size_t owned = options.work == LaneWork::kSpread ? 0 : kWindow * peers * kPartBytes;
  return owned + (options.is_bf16 ? kWindow * peers * kPartBytes / 2 : 0);
}

LaneReduction::LaneReduction(MPI_Comm lane, std::vector<LaneBlock> blocks, const LaneKernels& kernels,
                             Span<std::byte> memory, const LaneOptions& options)
    : lane_(lane), blocks_(std::move(blocks)), kernels_(kernels), options_(options) {
  int nodes = 0;
  MPI_Comm_size(lane, &nodes);
  MPI_Comm_rank(lane, &node_);
  peers_ = nodes - 1;
  BASCULE_CHECK(memory.size() >= memory_bytes(nodes, options) && !(options.is_bf16 && !reduces()));
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    BASCULE_CHECK(blocks_[b].count > 0 && blocks_[b].count <= kMostElements);
    (blocks_[b].owner == node_ ? owned_ : others_).push_back(b);
  }
  const std::size_t peers = static_cast<std::size_t>(peers_);
  slots_.resize(kWindow * (1 + peers));
  std::byte* next = memory.data();
  for (std::size_t s = 0; s < slots_.size(); ++s) {
    slots_[s].memory = next;
    if (s < kWindow) next += reduces() ? peers * kPartBytes : 0;
    if (s >= kWindow) next += options.is_bf16 ? kPartBytes / 2 : 0;
    slot_of_request_.resize(slot_of_request_.size() + (s < kWindow ? peers : 1), static_cast<int>(s));
  }
  requests_.assign(slot_of_request_.size(), MPI_REQUEST_NULL);
  completed_.resize(requests_.size());
  terms_.resize(peers + 1);
  next_owned_ = owned_.size();
  next_other_ = others_.size();
  whole_ = blocks_.size();
}

void LaneReduction::begin() noexcept {
  BASCULE_CHECK(is_done() || has_failed_);
  next_owned_ = next_other_ = whole_ = 0;
}

bool LaneReduction::advance(std::size_t ready) noexcept {
  bool moved = test_requests();
  for (std::size_t s = 0; s < slots_.size() && !has_failed_; ++s) {
    const bool is_owned = s < kWindow;
    if (slots_[s].stage != Stage::kFree) moved = (is_owned ? go_on_owned(s, ready) : go_on_other(s)) || moved;
    if (slots_[s].stage == Stage::kFree) moved = (is_owned ? start_owned(s) : start_other(s, ready)) || moved;
  }
  return moved;
}

bool LaneReduction::test_requests() noexcept {
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, completed_.data(),
                                MPI_STATUSES_IGNORE);
  if (code != MPI_SUCCESS) has_failed_ = true;
  if (has_failed_ || count == MPI_UNDEFINED) return false;
  const double due = options_.delay_seconds > 0.0 ? monotonic_seconds() + options_.delay_seconds : 0.0;
  for (int i = 0; i < count; ++i) {
    Slot& slot = slots_[static_cast<std::size_t>(
        slot_of_request_[static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)])])];
    --slot.pending;
    slot.due = due;
  }
  return count > 0;
}

// Receives parts, which may come before this node's own is there.
bool LaneReduction::start_owned(std::size_t slot) noexcept {
  if (next_owned_ == owned_.size()) return false;
  Slot& s = slots_[slot];
  s.block = owned_[next_owned_++];
  s.stage = Stage::kReceiving;
  s.due = 0.0;
  for (int peer = 0; peer < peers_ && reduces(); ++peer) {
    receive(part_of(s, peer), blocks_[s.block], node_of(peer), first_request(slot) + static_cast<std::size_t>(peer));
  }
  return true;
}

bool LaneReduction::go_on_owned(std::size_t slot, std::size_t ready) noexcept {
  Slot& s = slots_[slot];
  if (s.pending > 0) return false;
  if (s.stage == Stage::kReceiving) {
    if (s.block >= ready || !has_come(s)) return false;
    if (reduces()) add_up(s);
    if (spreads()) send_sum(slot);
  }
  if (s.pending == 0) finish(&s);
  return true;
}

bool LaneReduction::start_other(std::size_t slot, std::size_t ready) noexcept {
  if (next_other_ == others_.size() || others_[next_other_] >= ready) return false;
  slots_[slot].block = others_[next_other_++];
  slots_[slot].due = 0.0;
  reduces() ? send_part(slot) : receive_sum(slot);
  return true;
}

bool LaneReduction::go_on_other(std::size_t slot) noexcept {
  Slot& s = slots_[slot];
  if (s.pending > 0) return false;
  if (s.stage == Stage::kSending && spreads()) {
    receive_sum(slot);
    return true;
  }
  if (!has_come(s)) return false;
  if (s.stage == Stage::kReceiving && options_.is_bf16) {
    const LaneBlock& block = blocks_[s.block];
    kernels_.from_bf16({block.data, halves(s.memory), block.count});
  }
  finish(&s);
  return true;
}

bool LaneReduction::has_come(const Slot& slot) const noexcept {
  return options_.delay_seconds <= 0.0 || monotonic_seconds() >= slot.due;
}

// In place of this node's part.
void LaneReduction::add_up(const Slot& slot) noexcept {
  const LaneBlock& block = blocks_[slot.block];
  std::uint16_t* const rounded = halves(slot.memory);  // below what came from the first peer
  if (options_.is_bf16) round(block, rounded);
  terms_[static_cast<std::size_t>(node_)] = block.data;
  for (int peer = 0; peer < peers_; ++peer) {
    float* const term = floats(slot.memory + static_cast<std::size_t>(peer) * kPartBytes);
    if (options_.is_bf16) kernels_.from_bf16({term, halves(part_of(slot, peer)), block.count});
    terms_[static_cast<std::size_t>(node_of(peer))] = term;
  }
  kernels_.sum_terms({block.data, terms_.data(), peers_ + 1, block.count});
  if (options_.is_bf16) round(block, rounded);
}

// Leaves the same in bf16 at `halves`.
void LaneReduction::round(const LaneBlock& block, std::uint16_t* halves) const noexcept {
  kernels_.to_bf16({halves, block.data, block.count});
  kernels_.from_bf16({block.data, halves, block.count});
}

void LaneReduction::send_sum(std::size_t slot) noexcept {
  Slot& s = slots_[slot];
  const LaneBlock& block = blocks_[s.block];
  s.stage = Stage::kSending;
  const void* const data = options_.is_bf16 ? static_cast<const void*>(s.memory) : block.data;
  for (int peer = 0; peer < peers_; ++peer)
    send(data, block, node_of(peer), first_request(slot) + static_cast<std::size_t>(peer));
}

void LaneReduction::send_part(std::size_t slot) noexcept {
  Slot& s = slots_[slot];
  const LaneBlock& block = blocks_[s.block];
  s.stage = Stage::kSending;
  if (options_.is_bf16) kernels_.to_bf16({halves(s.memory), block.data, block.count});
  send(options_.is_bf16 ? static_cast<const void*>(s.memory) : block.data, block, block.owner, first_request(slot));
}

void LaneReduction::receive_sum(std::size_t slot) noexcept {
  Slot& s = slots_[slot];
  const LaneBlock& block = blocks_[s.block];
  s.stage = Stage::kReceiving;
  receive(options_.is_bf16 ? static_cast<void*>(s.memory) : block.data, block, block.owner, first_request(slot));
}

void LaneReduction::send(const void* data, const LaneBlock& block, int node, std::size_t request) noexcept {
  const int bytes = static_cast<int>(static_cast<std::size_t>(block.count) * element_bytes());
  const int tag = static_cast<int>(&block - blocks_.data());
  if (MPI_Isend(data, bytes, MPI_BYTE, node, tag, lane_, &requests_[request]) != MPI_SUCCESS) has_failed_ = true;
  ++slots_[static_cast<std::size_t>(slot_of_request_[request])].pending;
  sent_bytes_ += bytes;
}

void LaneReduction::receive(void* data, const LaneBlock& block, int node, std::size_t request) noexcept {
  const int bytes = static_cast<int>(static_cast<std::size_t>(block.count) * element_bytes());
  const int tag = static_cast<int>(&block - blocks_.data());
  if (MPI_Irecv(data, bytes, MPI_BYTE, node, tag, lane_, &requests_[request]) != MPI_SUCCESS) has_failed_ = true;
  ++slots_[static_cast<std::size_t>(slot_of_request_[request])].pending;
  received_bytes_ += bytes;
}

void LaneReduction::finish(Slot* slot) noexcept {
  slot->stage = Stage::kFree;
  ++whole_;
}

// Where a peer's part comes to: its place in float32, or, in bf16, the upper half of that.
std::byte* LaneReduction::part_of(const Slot& slot, int peer) const noexcept {
  std::byte* const place = slot.memory + static_cast<std::size_t>(peer) * kPartBytes;
  return options_.is_bf16 ? place + static_cast<std::size_t>(blocks_[slot.block].count) * sizeof(std::uint16_t) : place;
}

std::size_t LaneReduction::first_request(std::size_t slot) const noexcept {
  const std::size_t peers = static_cast<std::size_t>(peers_);
  return slot < kWindow ? slot * peers : kWindow * peers + (slot - kWindow);
}

}  // namespace bascule
