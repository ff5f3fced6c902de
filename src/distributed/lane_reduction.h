// SPDX-License-Identifier: Apache-2.0
// Sums over the nodes of a run. A lane is one rank of every node; each lane sums its own blocks, next to the others.
// Every block has an owner among the nodes: the others send it their part, it adds all parts in a fixed tree over the
// nodes, and sends the sum back. So every node sends and receives 2 (N - 1) / N of the lane's bytes, no more.
//
// In bf16 every part, the owner's too, is rounded before float32 sums are made of them, and so is the sum, on the owner
// too: what comes out does not depend on who owns what.
//
// It has no thread: whoever calls advance() does the work that can be done now, and nothing waits. A window of blocks
// is under way at once. Between nodes that hold the same blocks in the same order.
//
//   LaneReduction lane(nodes.lane(), blocks, work, kernels, memory);      // before the seal
//   lane.begin();                                                          // after the seal, once an update
//   while (!lane.is_done()) { if (!lane.advance(ready)) sleep; }           // the first `ready` blocks have their part
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/bf16.h"
#include "kernels/elementwise.h"
#include "src/base/span.h"

namespace bascule {

struct LaneBlock {
  float* data = nullptr;
  std::int32_t count = 0;  // elements, at most LaneReduction::kMostElements
  std::int32_t owner = 0;  // node
};

// The result of a block. kReduce: the sum on its owner, unchanged elsewhere; kSpread: the owner's, on all nodes;
// kReduceAndSpread: the sum on all nodes.
enum class LaneWork { kReduceAndSpread, kReduce, kSpread };

struct LaneKernels {
  void (*sum_terms)(const SumTerms&);
  void (*to_bf16)(const ToBf16&);
  void (*from_bf16)(const FromBf16&);
};

struct LaneOptions {
  LaneWork work = LaneWork::kReduceAndSpread;
  bool is_bf16 = false;  // parts and sums travel as bf16; not with kSpread
  // Delays everything received by this long. Only tests set it: they need a slower wire than one machine has.
  double delay_seconds = 0.0;
};

class LaneReduction : NonCopyable {
 public:
  static constexpr std::int64_t kMostElements = 1 << 16;
  // Blocks that a node owns and has under way. 8 of 256 KiB are more than a wire of 10 Gbit/s carries in 1 ms.
  static constexpr std::size_t kWindow = 8;
  static std::size_t memory_bytes(int nodes, const LaneOptions& options);

  // lane: its rank is the node; errors return. blocks: the same number, counts and owners on every node, in the order
  // in which they will be ready. memory: memory_bytes(), aligned for float. Before the seal.
  LaneReduction(MPI_Comm lane, std::vector<LaneBlock> blocks, const LaneKernels& kernels, Span<std::byte> memory,
                const LaneOptions& options);

  // After the seal; by one thread at a time. Everything before is done.
  void begin() noexcept;
  // The first `ready` blocks, no fewer than before, have this node's part. Returns whether anything went on.
  bool advance(std::size_t ready) noexcept;
  bool is_done() const noexcept { return whole_ == blocks_.size(); }
  // The network is broken: nothing will be done any more.
  bool has_failed() const noexcept { return has_failed_; }

  // Bytes of blocks sent since the seal, without the overhead of MPI and the network.
  std::int64_t sent_bytes() const noexcept { return sent_bytes_; }
  std::int64_t received_bytes() const noexcept { return received_bytes_; }

 private:
  enum class Stage { kFree, kReceiving, kSending };
  struct Slot {
    Stage stage = Stage::kFree;
    std::size_t block = 0;
    int pending = 0;   // requests
    double due = 0.0;  // when what has come may be seen
    std::byte* memory = nullptr;
  };

  bool reduces() const noexcept { return options_.work != LaneWork::kSpread; }
  bool spreads() const noexcept { return options_.work != LaneWork::kReduce; }
  bool start_owned(std::size_t slot) noexcept;
  bool start_other(std::size_t slot, std::size_t ready) noexcept;
  bool go_on_owned(std::size_t slot, std::size_t ready) noexcept;
  bool go_on_other(std::size_t slot) noexcept;
  bool test_requests() noexcept;
  bool has_come(const Slot& slot) const noexcept;
  void add_up(const Slot& slot) noexcept;
  void round(const LaneBlock& block, std::uint16_t* halves) const noexcept;
  void send_sum(std::size_t slot) noexcept;
  void send_part(std::size_t slot) noexcept;
  void receive_sum(std::size_t slot) noexcept;
  void send(const void* data, const LaneBlock& block, int node, std::size_t request) noexcept;
  void receive(void* data, const LaneBlock& block, int node, std::size_t request) noexcept;
  void finish(Slot* slot) noexcept;

  std::byte* part_of(const Slot& slot, int peer) const noexcept;
  int node_of(int peer) const noexcept { return peer < node_ ? peer : peer + 1; }
  std::size_t first_request(std::size_t slot) const noexcept;
  std::size_t element_bytes() const noexcept { return options_.is_bf16 ? sizeof(std::uint16_t) : sizeof(float); }

  const MPI_Comm lane_;
  const std::vector<LaneBlock> blocks_;
  const LaneKernels kernels_;
  const LaneOptions options_;
  int node_ = 0, peers_ = 0;                 // peers: the other nodes
  std::vector<std::size_t> owned_, others_;  // blocks, in order
  std::size_t next_owned_ = 0, next_other_ = 0, whole_ = 0;
  std::vector<Slot> slots_;  // kWindow of owned blocks, then kWindow a peer of others
  std::vector<MPI_Request> requests_;
  std::vector<int> completed_, slot_of_request_;
  std::vector<const float*> terms_;
  bool has_failed_ = false;
  std::int64_t sent_bytes_ = 0, received_bytes_ = 0;
};

}  // namespace bascule
