// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/tape.h"

#include <algorithm>

namespace bascule {
namespace {

std::vector<void*> addresses_of(const Graph& graph, const WorkspacePlan& plan, const ParameterLayout& layout,
                                const TapeMemory& memory) {
  std::vector<void*> addresses(graph.tensors().size(), nullptr);
  const StateLayout states = graph.states() != nullptr ? lay_out_states(*graph.states()) : StateLayout{};
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const TensorInfo& info = graph.tensors()[i];
    if (info.storage == Storage::kParameter || info.storage == Storage::kGradient) {
      const ParameterLayout::Place& place = layout.places[static_cast<std::size_t>(info.parameter)];
      if (place.rounded) {
        addresses[i] = memory.rounded_parameters + place.offset;
        continue;
      }
      const bool is_gradient = info.storage == Storage::kGradient;
      float* base = is_gradient     ? memory.gradients
                    : place.trained ? memory.trained_parameters
                                    : memory.fixed_parameters;
      const std::int64_t offset = is_gradient && memory.gradient_offsets != nullptr
                                      ? memory.gradient_offsets[static_cast<std::size_t>(info.parameter)]
                                      : place.offset;
      addresses[i] = base == nullptr ? nullptr : base + offset;
    } else if (info.storage == Storage::kState) {
      addresses[i] = memory.states + states.places[static_cast<std::size_t>(info.state)].offset;
    } else if (plan.buffer_of[i] >= 0) {
      const WorkspaceBuffer& buffer = plan.buffers[static_cast<std::size_t>(plan.buffer_of[i])];
      std::byte* const gradients = static_cast<std::byte*>(static_cast<void*>(memory.gradients));
      addresses[i] = (buffer.in_gradients ? gradients : memory.workspace) + buffer.offset;
    }
  }
  return addresses;
}

}  // namespace

Tape::Tape(const Graph& graph, const WorkspacePlan& plan, const ParameterLayout& layout, const TapeMemory& memory,
           const KernelTable& kernels, GemmLibrary& products)
    : graph_(graph), memory_(memory) {
  launch_ = std::make_unique<Launch>(graph, addresses_of(graph, plan, layout, memory), kernels, products);
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    launch_->set_node(static_cast<std::int32_t>(n));
    const Node& node = graph.nodes()[n];
    node.kind->launch(NodeView(graph, node), *launch_);
  }
  times_ = std::make_unique<StepTime[]>(step_count());
}

void Tape::replay(Threads& threads, Replay replay) const noexcept { replay_part(threads, replay, 0, step_count()); }

void Tape::replay_part(Threads& threads, Replay replay, std::size_t first, std::size_t end) const noexcept {
  replay.thread_scratch = memory_.thread_scratch;
  replay.thread_scratch_bytes = memory_.thread_scratch_bytes;
  threads.replay(Span<const Step>(launch_->steps().data() + first, end - first), replay, {times_.get() + first},
                 static_cast<std::int64_t>(first));
}

double Tape::seconds(bool backward) const noexcept {
  std::uint64_t sum = 0;
  const std::vector<Step>& steps = launch_->steps();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (graph_.nodes()[static_cast<std::size_t>(steps[i].node)].backward == backward) sum += times_[i].nanoseconds;
  }
  return static_cast<double>(sum) * 1e-9;
}

std::size_t Tape::steps_below(int node) const noexcept {
  const std::vector<Step>& steps = launch_->steps();
  const auto end =
      std::lower_bound(steps.begin(), steps.end(), node, [](const Step& step, int below) { return step.node < below; });
  return static_cast<std::size_t>(end - steps.begin());
}

std::vector<std::int64_t> Tape::steps_until_final() const {
  std::vector<std::int64_t> final_steps;
  const std::vector<Step>& steps = launch_->steps();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const Operand& operand : graph_.nodes()[static_cast<std::size_t>(steps[i].node)].operands) {
      if (operand.access == Access::kRead) continue;  // as one that is absent does
      const TensorInfo& info = graph_[operand.tensor];
      if (info.storage != Storage::kGradient) continue;
      const std::size_t parameter = static_cast<std::size_t>(info.parameter);
      if (final_steps.size() <= parameter) final_steps.resize(parameter + 1, 0);
      final_steps[parameter] = static_cast<std::int64_t>(i) + 1;
    }
  }
  return final_steps;
}

std::vector<NodeTime> Tape::node_times(const BatchCounts& counts) const {
  std::vector<NodeTime> times(graph_.nodes().size());
  for (std::size_t n = 0; n < times.size(); ++n) {
    const Node& node = graph_.nodes()[n];
    const Cost cost = cost_of(graph_, node, counts);
    NodeTime& time = times[n];
    time.scope = node.scope;
    time.kind = node.kind->name;
    time.backward = node.backward;
    time.again = node.again;
    time.bf16_products = node.bf16_products;
    time.flops = cost.flops;
    time.bytes = cost.bytes;
  }
  const std::vector<Step>& steps = launch_->steps();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    NodeTime& time = times[static_cast<std::size_t>(steps[i].node)];
    const StepTime& step = times_[i];
    time.seconds += static_cast<double>(step.nanoseconds) * 1e-9;
    time.work_seconds += static_cast<double>(step.work_ns) * 1e-9;
    time.barrier_seconds += static_cast<double>(step.barrier_ns) * 1e-9;
    time.few_tasks_seconds += static_cast<double>(step.few_tasks_ns) * 1e-9;
  }
  return times;
}

}  // namespace bascule
