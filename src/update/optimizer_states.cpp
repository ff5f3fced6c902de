// SPDX-License-Identifier: Apache-2.0
#include "src/update/optimizer_states.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/distributed/nodes.h"

namespace bascule {
namespace {

using Lies = OptimizerState::Lies;

// Columns belong to the block that begins their matrix.
std::int64_t values_of_block(const OptimizerState& state, const UpdateBlock& block) {
  const bool is_matrix = block.matrix_rows > 0;
  switch (state.lies) {
    case Lies::kByElement: return block.count;
    case Lies::kByRow: return is_matrix ? block.rows : 0;
    case Lies::kByColumn: return is_matrix && block.part == 0 ? column_room(block) / (block.cols + 1) * block.cols : 0;
    case Lies::kOfVectors: return is_matrix ? 0 : block.cols;
  }
  return 0;
}

std::int64_t values_of_run(const OptimizerState& state, const ParameterLayout::Run& run) {
  BASCULE_CHECK(run.rows > 0);  // the layout must be divided by matrices
  switch (state.lies) {
    case Lies::kByElement: return run.elements;
    case Lies::kByRow: return run.matrices * run.rows;
    case Lies::kByColumn: return run.matrices * run.cols;
    case Lies::kOfVectors: return run.matrices > 0 ? 0 : run.cols;
  }
  return 0;
}

// Those of the trained range below this element, at which a tensor begins or the range ends.
std::int64_t values_below(const OptimizerState& state, const ParameterLayout& layout, std::int64_t element) {
  if (state.lies == Lies::kByElement) return element;
  std::int64_t values = 0;
  for (const ParameterLayout::Run& run : layout.runs) {
    if (run.offset < element) values += values_of_run(state, run);
  }
  return values;
}

// The shape of a tensor's values of the state, from the tensor's; false: it has none.
bool shape_values(const OptimizerState& state, std::vector<std::int64_t>* shape) {
  const bool is_matrix = shape->size() > 1;
  if (state.lies == Lies::kByElement) return true;
  if (is_matrix == (state.lies == Lies::kOfVectors)) return false;
  if (state.lies == Lies::kByRow) shape->pop_back();
  if (state.lies == Lies::kByColumn) shape->erase(shape->end() - 2);
  return true;
}

// One node's without a list: layouts are planned that no machine could hold.
std::int64_t planned_elements(const OptimizerState& state, const ParameterLayout& layout, const StateSharing& sharing) {
  return sharing.nodes > 1 ? shard_state(state, layout, sharing).elements
                           : values_below(state, layout, layout.trained_elements);
}

}  // namespace

std::size_t StateShards::block_at(std::int64_t value) const noexcept {
  const auto after = std::upper_bound(blocks.begin(), blocks.end(), value,
                                      [](std::int64_t v, const Block& block) { return v < block.first; });
  return static_cast<std::size_t>(after - blocks.begin()) - 1;
}

StateShards shard_state(const OptimizerState& state, const ParameterLayout& layout, const StateSharing& sharing) {
  const std::vector<UpdateBlock> blocks = cut_into_blocks(layout);
  StateShards shards;
  shards.blocks.resize(blocks.size());
  for (int rank = 0; rank < sharing.local_ranks; ++rank) {
    const OwnBlocks own =
        own_blocks(blocks, static_cast<std::int64_t>(blocks.size()), rank, sharing.local_ranks, sharing.nodes);
    for (std::size_t i = 0; i < own.numbers.size(); ++i)
      shards.blocks[static_cast<std::size_t>(own.numbers[i])].node = own.owners[i];
  }
  std::vector<std::int64_t> ends(static_cast<std::size_t>(sharing.nodes));
  std::int64_t first = 0;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    StateShards::Block& block = shards.blocks[b];
    std::int64_t& end = ends[static_cast<std::size_t>(block.node)];
    block.first = first;
    block.count = values_of_block(state, blocks[b]);
    const bool continues = state.lies == Lies::kByColumn && blocks[b].part > 0;
    block.place = continues ? end - blocks[b].cols : end;
    first += block.count;
    end += block.count;
  }
  shards.elements = *std::max_element(ends.begin(), ends.end());
  return shards;
}

std::vector<StateTensor> state_tensors(const OptimizerState& state, const ParameterSet& set,
                                       const ParameterLayout& layout) {
  std::vector<StateTensor> tensors;
  for (int p = 0; p < set.size(); ++p) {
    const ParameterLayout::Place& place = layout.places[static_cast<std::size_t>(p)];
    if (!place.trained) continue;
    for (const ParameterPiece& piece : set[p].pieces) {
      std::vector<std::int64_t> shape = piece.shape;
      if (!shape_values(state, &shape)) continue;
      tensors.push_back({std::string(state.name) + "." + piece.name, std::move(shape),
                         values_below(state, layout, place.offset + piece.first_element)});
    }
  }
  return tensors;
}

std::vector<PlannedRange> plan_states(const OptimizerKind& kind, const ParameterLayout& layout,
                                      const StateSharing& sharing, bool shared) {
  std::vector<PlannedRange> ranges;
  for (const OptimizerState& state : kind.states) {
    const std::int64_t elements = planned_elements(state, layout, sharing);
    ranges.push_back({state.name, static_cast<std::size_t>(elements) * sizeof(float), shared});
  }
  return ranges;
}

OptimizerStates::OptimizerStates(const OptimizerKind& optimizer, const ParameterLayout& layout,
                                 const StateSharing& sharing, const std::vector<float*>& values)
    : kind(&optimizer), are_shared_out(sharing.nodes > 1) {
  BASCULE_CHECK(values.size() == optimizer.states.size() && values.size() <= kMostStates);
  for (std::size_t i = 0; i < values.size(); ++i)
    ranges.push_back({optimizer.states[i], shard_state(optimizer.states[i], layout, sharing), values[i]});
}

OptimizerStates seal_states(const OptimizerKind& kind, const ParameterLayout& layout, const StateSharing& sharing,
                            const Arena& arena, const MemoryPlan& plan) {
  std::vector<float*> values;
  for (const OptimizerState& state : kind.states) values.push_back(arena.as<float>(plan[state.name]));
  return {kind, layout, sharing, values};
}

namespace {

constexpr Status kGone{StatusCode::kRankFailed, {-1, 0}};

}  // namespace

Status StateExchange::read(std::size_t state, std::int64_t first, std::int64_t count, float* destination) noexcept {
  const std::int64_t end = first + count;
  const StateShards& shards = states_.ranges[state].shards;
  while (first < end) {
    std::size_t b = shards.block_at(first);
    const StateShards::Block& block = shards.blocks[b];
    while (b + 1 < shards.blocks.size() && shards.blocks[b + 1].node == block.node && shards.blocks[b + 1].first < end)
      ++b;  // the same node's, next to it there too
    const std::int64_t part = std::min(end, shards.blocks[b].first + shards.blocks[b].count) - first;
    const Request request{static_cast<std::int64_t>(state), block.place + first - block.first, part};
    if (block.node == group_.node()) {
      std::copy_n(states_.ranges[state].values + request.place, part, destination);
    } else if (!group_.between_nodes()->send(&request, sizeof request, block.node) ||
               !group_.between_nodes()->receive(destination, static_cast<std::size_t>(part) * sizeof(float),
                                                block.node)) {
      return kGone;
    }
    first += part;
    destination += part;
  }
  return ok_status();
}

Status StateExchange::read_part(void* part, float* destination, std::int64_t first, std::int64_t count) noexcept {
  const Part& p = *static_cast<const Part*>(part);
  return p.exchange->read(p.state, p.first + first, count, destination);
}

void StateExchange::finish() noexcept {
  const Request none;
  for (int node = 1; node < group_.nodes(); ++node) {
    if (!group_.between_nodes()->send(&none, sizeof none, node)) return;
  }
}

Status StateExchange::serve() noexcept {
  for (;;) {
    Request request;
    if (!group_.between_nodes()->receive(&request, sizeof request, 0)) return kGone;
    if (request.count == 0) return ok_status();
    const float* const part = states_.ranges[static_cast<std::size_t>(request.state)].values + request.place;
    if (!group_.between_nodes()->send(part, static_cast<std::size_t>(request.count) * sizeof(float), 0)) return kGone;
  }
}

}  // namespace bascule
