// SPDX-License-Identifier: Apache-2.0
// What an operation is given at the seal to turn itself into steps: addresses, kernels, matrix products, memory for
// argument blocks. Everything made here lives as long as the Launch and is not changed after the seal.
//
// An argument block is a plain struct A with
//   static std::int64_t tasks(const A&, const Replay&);
//   static void run(const A&, const Replay&, std::int64_t task, int thread);
#pragma once

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "kernels/table.h"
#include "src/graph/graph.h"
#include "src/graph/replay.h"

namespace bascule {

class Launch {
 public:
  // addresses: by tensor; may be null for a tensor that no step touches.
  Launch(const Graph& graph, std::vector<void*> addresses, const KernelTable& table, GemmCache& products)
      : kernels(table), graph_(graph), addresses_(std::move(addresses)), products_(products) {}

  const KernelTable& kernels;

  template <typename Element = float>
  Element* at(Tensor tensor) const {
    return tensor ? static_cast<Element*>(addresses_[static_cast<std::size_t>(tensor.index)]) : nullptr;
  }
  Extent rows(Tensor tensor) const { return graph_[tensor].rows; }
  std::int64_t cols(Tensor tensor) const { return graph_[tensor].cols; }
  std::int64_t max_rows(Tensor tensor) const { return graph_.max_rows(tensor); }
  const BatchCounts& bounds() const { return graph_.bounds(); }

  const Gemm* product(const GemmSpec& spec) {
    gemms_.push_back(Gemm::make(spec, products_));
    return gemms_.back().get();
  }

  template <typename Arguments>
  void step(const Arguments& arguments) {
    static_assert(std::is_trivially_destructible_v<Arguments>);
    auto block = std::make_unique<Block<Arguments>>(arguments);
    Step step;
    step.arguments = &block->arguments;
    step.tasks = [](const void* a, const Replay& replay) {
      return Arguments::tasks(*static_cast<const Arguments*>(a), replay);
    };
    step.run = [](const void* a, const Replay& replay, std::int64_t task, int thread) {
      Arguments::run(*static_cast<const Arguments*>(a), replay, task, thread);
    };
    step.node = node_;
    steps_.push_back(step);
    blocks_.push_back(std::move(block));
  }

  void set_node(std::int32_t node) { node_ = node; }
  const std::vector<Step>& steps() const { return steps_; }

 private:
  struct AnyBlock {
    virtual ~AnyBlock() = default;
  };
  template <typename Arguments>
  struct Block : AnyBlock {
    explicit Block(const Arguments& values) : arguments(values) {}
    Arguments arguments;
  };

  const Graph& graph_;
  std::vector<void*> addresses_;
  GemmCache& products_;
  std::int32_t node_ = 0;
  std::vector<Step> steps_;
  std::vector<std::unique_ptr<AnyBlock>> blocks_;
  std::vector<std::unique_ptr<Gemm>> gemms_;
};

// Rows that one task of a row kernel takes: about 32768 elements. A function of the width alone, so that sums over row
// blocks have the same blocks on every machine.
constexpr std::int64_t rows_per_task(std::int64_t cols) {
  const std::int64_t rows = 32768 / cols / 8 * 8;
  return rows < 8 ? 8 : rows > 256 ? 256 : rows;
}

constexpr std::int64_t row_tasks(std::int64_t rows, std::int64_t cols) {
  return (rows + rows_per_task(cols) - 1) / rows_per_task(cols);
}

struct RowRange {
  std::int64_t first, count;
};

constexpr RowRange rows_of_task(std::int64_t task, std::int64_t rows, std::int64_t cols) {
  const std::int64_t first = task * rows_per_task(cols);
  const std::int64_t left = rows - first;
  return {first, left < rows_per_task(cols) ? left : rows_per_task(cols)};
}

// Columns that one task of a column sum takes.
constexpr std::int64_t kColumnsPerTask = 256;

}  // namespace bascule
