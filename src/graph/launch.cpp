// SPDX-License-Identifier: Apache-2.0
#include "src/graph/launch.h"

namespace bascule {
namespace {

template <typename Value>
void put(std::byte* at, const Value& value) {
  std::memcpy(at, &value, sizeof(Value));  // NOLINT(bugprone-sizeof-expression): a pointer is copied itself
}

}  // namespace

void LateArgument::fill(std::byte* block, const Replay& replay, int thread) const noexcept {
  std::byte* const member = block + offset;
  switch (kind) {
    case Kind::kField: put(member, replay.batch.fields[field]); break;
    case Kind::kRows: put(member, divide_up(extent.at(replay.batch.counts), per_task)); break;
    case Kind::kAdd: put(member, replay.add_to_gradients); break;
    case Kind::kLossWeight: put(member, replay.loss_weights[field]); break;
    case Kind::kDropout: put(member, replay.dropout_key); break;
    case Kind::kScratch: put(member, replay.scratch(thread)); break;
    case Kind::kPeers: put(member, &replay.peers); break;
  }
}

Launch::Launch(const Graph& graph, std::vector<void*> addresses, const KernelTable& table, GemmLibrary& products)
    : kernels(table), graph_(graph), addresses_(std::move(addresses)), products_(products) {}

void Launch::add_piece(std::unique_ptr<Piece> piece, Span<std::byte> block) {
  if (is_new_step_) {
    pieces_.push_back(std::make_unique<Pieces>());
    steps_.push_back({&run_task, &tasks_of, pieces_.back().get(), node_});
    is_new_step_ = false;
  }
  pieces_.back()->pieces.push_back(std::move(piece));
  block_ = block;
}

std::uint16_t Launch::offset_of(const void* member) const {
  const auto at = reinterpret_cast<std::uintptr_t>(member), begin = reinterpret_cast<std::uintptr_t>(block_.data());
  BASCULE_CHECK(at >= begin && at - begin < block_.size());
  return static_cast<std::uint16_t>(at - begin);
}

LateArgument& Launch::late(const void* member, LateArgument::Kind kind) {
  LateArgument argument;
  argument.kind = kind;
  argument.offset = offset_of(member);
  std::vector<LateArgument>& all = pieces_.back()->pieces.back()->late;
  all.push_back(argument);
  return all.back();
}

void Launch::adds(bool* member, Access access) {
  (void)offset_of(member);
  *member = access == Access::kAdd;
  if (access == Access::kAddLater) late(member, LateArgument::Kind::kAdd);
}

void Launch::dropout(DropoutStream* member, const DropoutPlace& place) {
  *member = {};
  if (place.probability <= 0.0f) return;
  const double p = static_cast<double>(place.probability);
  member->threshold = static_cast<std::uint32_t>(p * 4294967296.0 + 0.5);
  member->scale = static_cast<float>(1.0 / (1.0 - p));
  member->operation = place.operation;
  late(member->key, LateArgument::Kind::kDropout);
}

void Launch::mean(float* out, const float* numbers, Extent extent) {
  struct Block {
    float* out;
    const float* numbers;
    std::int64_t count;
  };
  Block* const b = step(
      Block{out, numbers, 0}, whole(), +[](const Block& block, Range, int) {
        double sum = 0.0;
        for (std::int64_t i = 0; i < block.count; ++i) sum += static_cast<double>(block.numbers[i]);
        *block.out = block.count > 0 ? static_cast<float>(sum / static_cast<double>(block.count)) : 0.0f;
      });
  rows(&b->count, extent);
}

void Launch::add_column_sums(float* parts, ConstElements x, Extent rows, std::int64_t cols) {
  struct Block {
    void (*kernel)(const ColumnSums&);
    float* parts;
    ConstElements x;
    std::int64_t cols;
  };
  add(
      Block{kernels.column_sums, parts, x, cols}, by_rows(rows, cols), +[](const Block& b, Range range, int) {
        b.kernel({b.parts + range.task * b.cols, b.x + range.first * b.cols, range.count, b.cols, b.cols});
      });
}

void Launch::add_sum_of_parts(const Operand& sum, const float* parts, std::int64_t cols, std::int64_t stride,
                              const TaskSplit& split) {
  AddParts* const end =
      add_kernel(kernels.add_parts, {at(sum.tensor), parts, 0, cols, stride, false}, by_columns(cols));
  tasks(&end->count, split);
  adds(&end->accumulate, sum.access);
}

std::int64_t Launch::tasks_of(const void* pieces, const Replay& replay) {
  std::int64_t tasks = 0;
  for (const std::unique_ptr<Piece>& piece : static_cast<const Pieces*>(pieces)->pieces)
    tasks += piece->split.tasks(replay.batch.counts);
  return tasks;
}

void Launch::run_task(const void* pieces, const Replay& replay, std::int64_t task, int thread) {
  for (const std::unique_ptr<Piece>& piece : static_cast<const Pieces*>(pieces)->pieces) {
    const std::int64_t tasks = piece->split.tasks(replay.batch.counts);
    if (task < tasks) return piece->run(*piece, piece->split.range(task, replay.batch.counts), replay, thread);
    task -= tasks;
  }
}

}  // namespace bascule
