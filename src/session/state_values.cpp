// SPDX-License-Identifier: Apache-2.0
#include "src/session/state_values.h"

#include <algorithm>
#include <utility>

namespace bascule {
namespace {

void want_part_of_node(std::vector<WantedTensor>* wanted, const StateRange& range, const StateTensor& tensor,
                       int node) {
  const std::int64_t end = tensor.first + element_count(tensor.shape);
  const std::vector<StateShards::Block>& blocks = range.shards.blocks;
  for (std::size_t b = range.shards.block_at(tensor.first); b < blocks.size() && blocks[b].first < end; ++b) {
    if (blocks[b].node != node) continue;
    const std::int64_t from = std::max(tensor.first, blocks[b].first);
    const std::int64_t to = std::min(end, blocks[b].first + blocks[b].count);
    float* const destination = range.of_block(b) + from - blocks[b].first;
    wanted->push_back({tensor.name, tensor.shape, destination, from - tensor.first, to - from, true});
  }
}

}  // namespace

std::vector<TensorToWrite> states_to_write(const OptimizerStates& states, const ParameterMemory& parameters,
                                           StateExchange* exchange, std::deque<StateExchange::Part>* parts) {
  std::vector<TensorToWrite> all;
  for (std::size_t i = 0; i < states.ranges.size(); ++i) {
    for (StateTensor& tensor : state_tensors(states.ranges[i].state, *parameters.set, *parameters.layout)) {
      TensorToWrite one;
      one.name = std::move(tensor.name);
      one.shape = std::move(tensor.shape);
      if (exchange != nullptr) {
        parts->push_back({exchange, i, tensor.first});
        one.reader = {&StateExchange::read_part, &parts->back()};
      } else {
        one.data = states.ranges[i].values + tensor.first;
      }
      all.push_back(std::move(one));
    }
  }
  return all;
}

std::vector<WantedTensor> wanted_states(const OptimizerStates& states, const ParameterMemory& parameters, int node) {
  std::vector<WantedTensor> wanted;
  for (const StateRange& range : states.ranges) {
    for (const StateTensor& tensor : state_tensors(range.state, *parameters.set, *parameters.layout)) {
      float* const all = states.are_shared_out ? nullptr : range.values + tensor.first;
      wanted.push_back({tensor.name, tensor.shape, all, 0, -1, true});  // without a destination it is only looked for
      if (states.are_shared_out) want_part_of_node(&wanted, range, tensor, node);
    }
  }
  return wanted;
}

}  // namespace bascule
