// SPDX-License-Identifier: Apache-2.0
// The part of an update between nodes: a rank's blocks are summed with the ranks that have the same blocks on the other
// nodes. Where the nodes share out the optimizer's states a block's sum comes to the node that holds its states, which
// measures and updates it; measures and new weights then go to the others. After the seal but for the constructor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/table.h"
#include "src/base/span.h"
#include "src/distributed/group.h"
#include "src/update/blocks.h"

namespace bascule {

class LaneReduction;  // its header is MPI's

class NodeLane : NonCopyable {
 public:
  struct Options {
    Span<std::byte> memory;   // memory_bytes()
    bool is_bf16 = false;     // sums travel so
    bool shares_out = false;  // the optimizer's states
  };
  static std::size_t memory_bytes(int nodes, bool is_bf16);

  // gradients, parameters: the trained range, of this rank's sums and of the node's weights. own: outlives this.
  NodeLane(Group& group, const std::vector<UpdateBlock>& blocks, const OwnBlocks& own, float* gradients,
           float* parameters, const KernelTable& kernels, const Options& options);
  ~NodeLane();

  void begin() noexcept;
  // Goes on with the first `ready` blocks of own, which are summed on this node; whether there was anything to do.
  bool advance(std::size_t ready) noexcept;
  // All blocks of own are summed on this node: returns when they are summed over the nodes. False, here and below: the
  // run has failed.
  bool sum() noexcept;
  // Numbers by block, each measured by the node that holds the block's states: all nodes get those of own.
  bool merge(double* of_blocks) noexcept;
  // The weights of own blocks, to the nodes that have not updated them.
  bool spread_weights() noexcept;

  // Since begin(): that waited for other nodes.
  double wire_seconds() const noexcept { return wire_seconds_; }
  // Since the seal.
  std::int64_t sent_bytes() const noexcept;
  std::int64_t received_bytes() const noexcept;

 private:
  bool move_all(LaneReduction& lane) noexcept;

  Group& group_;
  const OwnBlocks& own_;
  std::unique_ptr<LaneReduction> sums_, weights_;  // weights_: null where every node updates all
  std::vector<double> own_numbers_;                // of own, for merge()
  double wire_seconds_ = 0.0;
};

}  // namespace bascule
