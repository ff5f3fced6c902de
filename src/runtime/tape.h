// SPDX-License-Identifier: Apache-2.0
// A tape: what a graph became at the seal. Recorded once, replayed many times; immutable.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/graph/launch.h"
#include "src/plan/workspace.h"
#include "src/runtime/threads.h"

namespace bascule {

// Where a tape's tensors live. All 64-byte aligned.
struct TapeMemory {
  float* trained_parameters = nullptr;
  float* gradients = nullptr;  // may be null for a graph without backward
  float* fixed_parameters = nullptr;
  std::uint16_t* rounded_parameters = nullptr;  // null where none are stored as bf16
  std::byte *workspace = nullptr, *thread_scratch = nullptr;
  std::size_t thread_scratch_bytes = 0;  // of one thread
  // By parameter, in elements from `gradients`; null: where the parameter itself lies in the trained range.
  const std::int64_t* gradient_offsets = nullptr;
  std::byte* states = nullptr;  // laid out as lay_out_states() says; null: the graphs keep none
};

// Time of one operation kind at one place, for reports.
struct NodeTime {
  std::string scope, kind;
  bool backward = false, again = false;
  bool bf16_products = false;
  double seconds = 0.0;
  double flops = 0.0, bytes = 0.0;  // of one replay, or of the replays of a batch
  double replays = 1.0;             // in a batch
  double work_seconds = 0.0, barrier_seconds = 0.0, few_tasks_seconds = 0.0;  // as StepTime has them
  double memory_seconds = 0.0;                                                // of `seconds`: waited for memory
};

class Tape {
 public:
  // Before the seal. The graph must outlive the tape.
  Tape(const Graph& graph, const WorkspacePlan& plan, const ParameterLayout& layout, const TapeMemory& memory,
       const KernelTable& kernels, GemmLibrary& products);

  // After the seal. The batch must keep within the graph's bounds.
  void replay(Threads& threads, Replay replay) const noexcept;
  // A replay in parts: its steps from `first` to before `end`. The parts of one replay follow one another.
  void replay_part(Threads& threads, Replay replay, std::size_t first, std::size_t end) const noexcept;

  // A tensor's address; it must be kept or an input, or the value may be gone after the replay.
  float* at(Tensor tensor) const { return launch_->at(tensor); }
  const std::int32_t* at_int32(Tensor tensor) const { return launch_->at<std::int32_t>(tensor); }
  // Seconds spent in the graph's forward or backward steps, over all replays so far. After the seal.
  double seconds(bool backward) const noexcept;
  // By parameter: after how many steps of the tape its gradient is final; 0: it has no gradient. Before the seal.
  std::vector<std::int64_t> steps_until_final() const;
  const Fields& fields() const { return graph_.fields(); }
  std::size_t step_count() const { return launch_->steps().size(); }
  // How many steps the nodes before this one have become: the first steps of the tape.
  std::size_t steps_below(int node) const noexcept;
  // Sums over all replays so far; costs for a batch of `counts`. Allocates: after replay.
  std::vector<NodeTime> node_times(const BatchCounts& counts) const;

 private:
  const Graph& graph_;
  TapeMemory memory_;
  std::unique_ptr<Launch> launch_;
  std::unique_ptr<StepTime[]> times_;  // by step
};

}  // namespace bascule
