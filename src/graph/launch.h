// SPDX-License-Identifier: Apache-2.0
// How a graph becomes the steps of a tape.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/dropout.h"
#include "kernels/gemm/gemm.h"
#include "kernels/parts.h"
#include "kernels/table.h"
#include "src/base/batch.h"
#include "src/base/check.h"
#include "src/base/span.h"
#include "src/graph/graph.h"

namespace bascule {

// The inputs of a tape's replay, and the flat steps that a tape consists of.

// The batches of the other ranks, for a loss over the samples of all.
struct Peers {
  std::int64_t first = 0;  // the number of this rank's first sample among those of all ranks
  // Gathers rows (count, width) of every rank into out (samples of all, width), in rank order, for several operands at
  // once. By all ranks together; waits for them. A rank without samples calls it with count 0, and nulls.
  void (*gather)(void* context, float* const* out, const float* const* rows, int operands, std::int64_t count,
                 std::int64_t width) noexcept = nullptr;
  void* context = nullptr;
};

// One replay of a tape.
struct Replay {
  Batch batch;
  // The weight of each term of this micro-batch's loss, a mean, in the step's; gradients are scaled by it.
  float loss_weights[kMaxLossTerms] = {1.0f, 1.0f};
  bool add_to_gradients = false;          // second and later micro-batches of a step
  std::uint32_t dropout_key[2] = {0, 0};  // from seed and step
  Peers peers;                            // read by a loss that was recorded over all ranks
  std::byte* thread_scratch = nullptr;    // thread t has the bytes from t * thread_scratch_bytes
  std::size_t thread_scratch_bytes = 0;

  float* scratch(int thread) const {
    return static_cast<float*>(
        static_cast<void*>(thread_scratch + static_cast<std::size_t>(thread) * thread_scratch_bytes));
  }
};

// One step of a tape: `tasks` independent calls, done by whichever threads are free, then everybody waits for the last.
// Neither function allocates or throws. A task writes only what no other task of the step touches.
struct Step {
  void (*run)(const void* arguments, const Replay& replay, std::int64_t task, int thread) = nullptr;
  std::int64_t (*tasks)(const void* arguments, const Replay& replay) = nullptr;
  const void* arguments = nullptr;
  std::int32_t node = 0;  // the graph's node that it belongs to
};

// How an operation becomes steps of a tape, at the seal. A step has one or more pieces, whose tasks fill the threads
// together. A piece is a function, an argument block that speaks of whole tensors, and a declared split:
//
//   RowNormForward* a = launch.kernel(launch.kernels.layer_norm_forward, {...}, by_rows(rows, cols));
//   launch.operand(&a->row_keys, keys);           // filled in at each replay: a field of the batch
//   launch.dropout(&a->dropout, place);
//
// The CPU cuts the block by the split into tasks (kernels/parts.h). Another device could launch a kernel's block whole,
// as a grid; pieces whose function is the operation's own, such as the mean of a loss, run on the host.
// Everything made here lives as long as the Launch and is not changed after the seal.

// Rows that one task of a row kernel takes: about 32768 elements. A function of the width alone, so that sums over row
// blocks have the same blocks on every machine.
constexpr std::int64_t rows_per_task(std::int64_t cols) {
  const std::int64_t rows = 32768 / cols / 8 * 8;
  return rows < 8 ? 8 : rows > 256 ? 256 : rows;
}
constexpr std::int64_t row_tasks(std::int64_t rows, std::int64_t cols) { return divide_up(rows, rows_per_task(cols)); }

// Columns that one task of a column sum takes.
constexpr std::int64_t kColumnsPerTask = 256;

// The part of a piece's units that one task computes.
struct Range {
  std::int64_t first = 0, count = 0, task = 0;
  std::int64_t end() const { return first + count; }
};

// How a piece is cut into tasks: `units` (rows, columns, elements, samples, ...) of which each takes `per_task`, the
// last one what is left; or the tiles of a matrix product over so many rows.
struct TaskSplit {
  Extent units;
  std::int64_t per_task = 1;
  const Gemm* product = nullptr;

  std::int64_t tasks(const BatchCounts& counts) const {
    const std::int64_t all = units.at(counts);
    return product != nullptr ? product->tasks(all) : divide_up(all, per_task);
  }
  Range range(std::int64_t task, const BatchCounts& counts) const {
    if (product != nullptr) return {task, 1, task};
    const std::int64_t first = task * per_task, left = units.at(counts) - first;
    return {first, left < per_task ? left : per_task, task};
  }
};

inline TaskSplit whole() { return {fixed_rows(1), 1}; }
inline TaskSplit by_rows(Extent rows, std::int64_t cols) { return {rows, rows_per_task(cols)}; }
inline TaskSplit by_elements(Extent rows, std::int64_t cols) { return {rows.times(cols), rows_per_task(cols) * cols}; }
inline TaskSplit by_columns(std::int64_t cols) { return {fixed_rows(cols), kColumnsPerTask}; }
inline TaskSplit by_tiles(const Gemm* product, Extent rows) { return {rows, 1, product}; }

// One member of an argument block that is known only when the tape is replayed.
struct LateArgument {
  enum class Kind : std::uint8_t { kField, kRows, kAdd, kLossWeight, kDropout, kScratch, kPeers };
  Kind kind = Kind::kField;
  std::uint16_t offset = 0;  // of the member in its block
  std::int32_t field = -1;   // kField; kLossWeight: the term
  Extent extent;
  std::int64_t per_task = 1;

  void fill(std::byte* block, const Replay& replay, int thread) const noexcept;
};

class Launch {
 public:
  // addresses: by tensor; may be null for a tensor that no step touches.
  Launch(const Graph& graph, std::vector<void*> addresses, const KernelTable& table, GemmLibrary& products);

  const KernelTable& kernels;

  // A tensor's address, null for none. Element must be the tensor's type. Not for fields: see operand().
  template <typename Element = float>
  Element* at(Tensor tensor) const {
    if (!tensor) return nullptr;
    const TensorInfo& info = graph_[tensor];
    BASCULE_CHECK(info.storage != Storage::kField && info.dtype == dtype_of<Element>());
    return static_cast<Element*>(addresses_[static_cast<std::size_t>(tensor.index)]);
  }
  // The same where the kernel takes float32 or bf16.
  Elements elements(Tensor tensor) const {
    if (!tensor) return {};
    const bool is_bf16 = graph_[tensor].dtype == DType::kBFloat16;
    return is_bf16 ? Elements(at<std::uint16_t>(tensor)) : Elements(at(tensor));
  }
  bool is_packed(Tensor tensor) const { return graph_[tensor].packed; }
  const BatchCounts& bounds() const { return graph_.bounds(); }
  bool products_read_past_rows() const { return products_.reads_past_rows(); }
  // How many threads share the tasks. A split that shows in the bits, as one of a sum does, must not depend on it.
  int threads() const { return products_.threads(); }
  const Gemm* product(const GemmSpec& spec) {
    gemms_.push_back(products_.make(spec));
    return gemms_.back().get();
  }

  // Pieces added from here on are a new step, which begins when all tasks of the step before are done.
  void begin_step() { is_new_step_ = true; }
  // A piece of the step under way: function(block, range, thread), cut by `split`. Returns the block.
  template <typename Block>
  Block* add(const Block& block, const TaskSplit& split, void (*function)(const Block&, Range, int)) {
    static_assert(std::is_trivially_copyable_v<Block> && sizeof(Block) <= 4096);
    auto piece = std::make_unique<PieceOf<Block>>(block, split, function);
    Block* const stored = &piece->block;
    add_piece(std::move(piece), {static_cast<std::byte*>(static_cast<void*>(stored)), sizeof(Block)});
    return stored;
  }
  // The same, as a step of its own.
  template <typename Block>
  Block* step(const Block& block, const TaskSplit& split, void (*function)(const Block&, Range, int)) {
    begin_step();
    return add(block, split, function);
  }

  // A kernel whose block kernels/parts.h knows to cut by rows, or by elements; as a piece, or as a step.
  template <typename Arguments>
  Arguments* add_kernel(void (*function)(const Arguments&), const Arguments& whole_tensor, const TaskSplit& split) {
    return &add<KernelBlock<Arguments>>(
                {function, whole_tensor}, split,
                [](const KernelBlock<Arguments>& b, Range r, int) { b.kernel(part_of(b.arguments, r.first, r.count)); })
                ->arguments;
  }
  template <typename Arguments>
  Arguments* kernel(void (*function)(const Arguments&), const Arguments& whole_tensor, const TaskSplit& split) {
    begin_step();
    return add_kernel(function, whole_tensor, split);
  }

  // The same for a kernel that is cut in a way of its own: cut(&block, range) makes the block that of a range.
  template <typename Arguments>
  Arguments* add_kernel(void (*function)(const Arguments&), const Arguments& whole_tensor, const TaskSplit& split,
                        void (*cut)(Arguments*, Range)) {
    return &add<CutKernelBlock<Arguments>>({{function, whole_tensor}, cut}, split,
                                           [](const CutKernelBlock<Arguments>& b, Range range, int) {
                                             Arguments a = b.whole.arguments;
                                             b.cut(&a, range);
                                             b.whole.kernel(a);
                                           })
                ->whole.arguments;
  }
  template <typename Arguments>
  Arguments* kernel(void (*function)(const Arguments&), const Arguments& whole_tensor, const TaskSplit& split,
                    void (*cut)(Arguments*, Range)) {
    begin_step();
    return add_kernel(function, whole_tensor, split, cut);
  }
  // And for one that a single task runs.
  template <typename Arguments>
  Arguments* whole_kernel(void (*function)(const Arguments&), const Arguments& whole_tensor) {
    return &step<KernelBlock<Arguments>>({function, whole_tensor}, whole(),
                                         [](const KernelBlock<Arguments>& b, Range, int) { b.kernel(b.arguments); })
                ->arguments;
  }
  // A step that writes the mean of the batch's numbers of this extent, added up in float64 and in their order; 0 of
  // none.
  void mean(float* out, const float* numbers, Extent extent);
  // A sum down the columns of x, in two steps: the sums of each task of by_rows(rows, cols) as parts (tasks, cols), and
  // the parts that the tasks of a split wrote, each `stride` numbers, of which the first `cols`, added up in order.
  void add_column_sums(float* parts, ConstElements x, Extent rows, std::int64_t cols);
  void add_sum_of_parts(const Operand& sum, const float* parts, std::int64_t cols, std::int64_t stride,
                        const TaskSplit& split);

  // Members of the block that was added last, filled in at each replay.
  // The tensor's address; it may be a field.
  template <typename Element>
  void operand(const Element** member, Tensor tensor) {
    if (!tensor || graph_[tensor].storage != Storage::kField) {
      (void)offset_of(member);
      *member = at<Element>(tensor);
      return;
    }
    BASCULE_CHECK(graph_[tensor].dtype == dtype_of<Element>());
    late(member, LateArgument::Kind::kField).field = graph_[tensor].field;
  }
  // The batch's rows of this extent.
  void rows(std::int64_t* member, Extent extent) { late(member, LateArgument::Kind::kRows).extent = extent; }
  // How many tasks the split has.
  void tasks(std::int64_t* member, const TaskSplit& split) {
    LateArgument& argument = late(member, LateArgument::Kind::kRows);
    argument.extent = split.units;
    argument.per_task = split.per_task;
  }
  // Whether a write of this access adds to what is there.
  void adds(bool* member, Access access);
  void loss_weight(float* member, int term) { late(member, LateArgument::Kind::kLossWeight).field = term; }
  void dropout(DropoutStream* member, const DropoutPlace& place);
  void scratch(float** member) { late(member, LateArgument::Kind::kScratch); }
  void peers(const Peers** member) { late(member, LateArgument::Kind::kPeers); }

  void set_node(std::int32_t node) {
    node_ = node;
    begin_step();
  }
  const std::vector<Step>& steps() const { return steps_; }

 private:
  struct Piece {
    using Run = void (*)(const Piece& piece, Range range, const Replay& replay, int thread);
    Piece(Run r, const TaskSplit& s) : run(r), split(s) {}
    virtual ~Piece() = default;
    Run run;
    TaskSplit split;
    std::vector<LateArgument> late;
  };
  template <typename Block>
  struct PieceOf final : Piece {
    PieceOf(const Block& b, const TaskSplit& s, void (*f)(const Block&, Range, int))
        : Piece(&run_block, s), block(b), function(f) {}
    static void run_block(const Piece& piece, Range range, const Replay& replay, int thread) {
      const PieceOf& self = static_cast<const PieceOf&>(piece);
      if (self.late.empty()) return self.function(self.block, range, thread);
      Block filled = self.block;
      for (const LateArgument& argument : self.late)
        argument.fill(static_cast<std::byte*>(static_cast<void*>(&filled)), replay, thread);
      self.function(filled, range, thread);
    }
    Block block;
    void (*function)(const Block&, Range, int);
  };
  template <typename Arguments>
  struct KernelBlock {
    void (*kernel)(const Arguments&);
    Arguments arguments;
  };
  template <typename Arguments>
  struct CutKernelBlock {
    KernelBlock<Arguments> whole;
    void (*cut)(Arguments*, Range);
  };
  struct Pieces {
    std::vector<std::unique_ptr<Piece>> pieces;
  };

  void add_piece(std::unique_ptr<Piece> piece, Span<std::byte> block);
  // The offset of a member of the block that was added last.
  std::uint16_t offset_of(const void* member) const;
  LateArgument& late(const void* member, LateArgument::Kind kind);
  static std::int64_t tasks_of(const void* pieces, const Replay& replay);
  static void run_task(const void* pieces, const Replay& replay, std::int64_t task, int thread);

  const Graph& graph_;
  std::vector<void*> addresses_;
  GemmLibrary& products_;
  std::int32_t node_ = 0;
  bool is_new_step_ = true;
  Span<std::byte> block_;  // of the piece that was added last
  std::vector<Step> steps_;
  std::vector<std::unique_ptr<Pieces>> pieces_;  // by step
  std::vector<std::unique_ptr<Gemm>> gemms_;
};

// Splits that the number of threads decides: only for kernels whose results do not depend on how their tensors are cut
// (kernels/parts.h).

// So many tasks that the last round of the threads is full; each has a multiple of `unit`, and no fewer than `least`.
inline TaskSplit evenly(const Launch& l, TaskSplit split, std::int64_t unit, std::int64_t least) {
  const std::int64_t threads = l.threads(), tasks = split.tasks(l.bounds());
  if (tasks == 0) return split;
  const std::int64_t of_all = divide_up(tasks, threads) * threads;
  const std::int64_t even = align_up(divide_up(split.units.at(l.bounds()), of_all), unit);
  split.per_task = std::min(split.per_task, std::max(even, least));
  return split;
}

// Smaller tasks would take less time than dealing them.
constexpr std::int64_t kLeastElements = 2048;

inline TaskSplit by_rows_evenly(const Launch& l, Extent rows, std::int64_t cols) {
  constexpr std::int64_t kUnit = 8;
  return evenly(l, by_rows(rows, cols), kUnit, align_up(divide_up(kLeastElements, cols), kUnit));
}
inline TaskSplit by_elements_evenly(const Launch& l, Extent rows, std::int64_t cols) {
  return evenly(l, by_elements(rows, cols), 64, kLeastElements);
}

}  // namespace bascule
