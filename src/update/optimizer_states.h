// SPDX-License-Identifier: Apache-2.0
// The states of an optimizer, in memory and shared out among nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/distributed/group.h"
#include "src/graph/parameters.h"
#include "src/plan/memory_plan.h"
#include "src/runtime/arena.h"
#include "src/update/optimizer.h"

namespace bascule {

// The states of an optimizer in memory: planned, sealed, and by the names of a checkpoint. The nodes of a run may share
// them out among themselves: every block of the update then has one node that holds its values and updates it, and
// holds those of no other. Before the seal; addresses are used after it.
//
//   ranges = plan_states(kind, layout, sharing, shared);                               // categories of the memory plan
//   const OptimizerStates states = seal_states(kind, layout, sharing, arena, plan);    // addresses

// Between so many nodes of so many ranks. One node: it holds all.
struct StateSharing {
  int local_ranks = 1, nodes = 1;
};

// A state's values by block of the update. A node's lie one after another, in the order of the blocks.
struct StateShards {
  struct Block {
    std::int64_t first = 0, count = 0;  // among all values of the state
    int node = 0;
    std::int64_t place = 0;  // in its node's range; of columns where its matrix has them
  };
  std::vector<Block> blocks;
  std::int64_t elements = 0;  // of the largest node's range

  // The block that holds this value.
  std::size_t block_at(std::int64_t value) const noexcept;
};
// As Update shares out its blocks.
StateShards shard_state(const OptimizerState& state, const ParameterLayout& layout, const StateSharing& sharing);

// A state's values of one tensor of a checkpoint: [first, first + the shape's elements) among all values of the state.
struct StateTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t first = 0;
};
// The state of all trained tensors that have one, parameter by parameter.
std::vector<StateTensor> state_tensors(const OptimizerState& state, const ParameterSet& set,
                                       const ParameterLayout& layout);

struct StateRange {
  OptimizerState state;
  StateShards shards;
  float* values = nullptr;  // this node's

  float* of_block(std::size_t block) const noexcept { return values + shards.blocks[block].place; }
};

// Categories of a memory plan, in the order of the kind's states.
std::vector<PlannedRange> plan_states(const OptimizerKind& kind, const ParameterLayout& layout,
                                      const StateSharing& sharing, bool shared);

struct OptimizerStates {
  const OptimizerKind* kind = nullptr;
  bool are_shared_out = false;     // between nodes
  std::vector<StateRange> ranges;  // in the order of the kind's states

  OptimizerStates() = default;
  // values: by state, this node's range.
  OptimizerStates(const OptimizerKind& kind, const ParameterLayout& layout, const StateSharing& sharing,
                  const std::vector<float*>& values);
};
OptimizerStates seal_states(const OptimizerKind& kind, const ParameterLayout& layout, const StateSharing& sharing,
                            const Arena& arena, const MemoryPlan& plan);

// Saving an optimizer's states that the nodes share out: rank 0 reads any part of them, of other nodes' by asking their
// first ranks, which answer until it has done. After the seal, by the first ranks of all nodes together.
//
//   rank 0: exchange.read(...) ...; exchange.finish();        others: exchange.serve();

class StateExchange {
 public:
  // A state's values of a tensor: from value `first` of the state on.
  struct Part {
    StateExchange* exchange = nullptr;
    std::size_t state = 0;
    std::int64_t first = 0;
  };

  // Before the seal. states: outlive this.
  StateExchange(Group& group, const OptimizerStates& states) : group_(group), states_(states) {}

  // Values [first, first + count) of all those of a state. kRankFailed where another node is gone.
  Status read(std::size_t state, std::int64_t first, std::int64_t count, float* destination) noexcept;
  // As a TensorReader: part is a Part.
  static Status read_part(void* part, float* destination, std::int64_t first, std::int64_t count) noexcept;
  void finish() noexcept;
  Status serve() noexcept;

 private:
  struct Request {
    std::int64_t state = 0, place = 0, count = 0;  // of the node's range; count 0: no more
  };

  Group& group_;
  const OptimizerStates& states_;
};

}  // namespace bascule
