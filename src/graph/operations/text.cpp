// SPDX-License-Identifier: Apache-2.0
// Text embeddings, and dropout on text rows.
#include "src/base/align.h"
#include "src/base/check.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"
#include "src/graph/operations/accumulate.h"
#include "src/graph/operations/dropout_stream.h"

namespace bascule {
namespace {

struct ForwardArguments {
  const KernelTable* kernels;
  float* out;
  const float *word, *position, *type;
  std::int64_t cols;
  static std::int64_t tasks(const ForwardArguments& a, const Replay& replay) {
    return row_tasks(replay.batch.counts.text_rows, a.cols);
  }
  static void run(const ForwardArguments& a, const Replay& replay, std::int64_t task, int) {
    const RowRange range = rows_of_task(task, replay.batch.counts.text_rows, a.cols);
    a.kernels->text_embedding_forward({a.out + range.first * a.cols, a.word, a.position, a.type,
                                       replay.batch.token_ids + range.first, replay.batch.position_ids + range.first,
                                       range.count, a.cols});
  }
};

// Tables whose gradient this operation writes first are cleared, in chunks.
struct ClearArguments {
  static constexpr std::int64_t kChunk = 1 << 16;
  const KernelTable* kernels;
  float* table[3];
  std::int64_t elements[3];
  Accumulate rule[3];
  static std::int64_t tasks(const ClearArguments& a, const Replay&) {
    std::int64_t count = 0;
    for (const std::int64_t elements : a.elements) count += divide_up(elements, kChunk);
    return count;
  }
  static void run(const ClearArguments& a, const Replay& replay, std::int64_t task, int) {
    for (int i = 0; i < 3; ++i) {
      const std::int64_t chunks = divide_up(a.elements[i], kChunk);
      if (task >= chunks) {
        task -= chunks;
        continue;
      }
      if (adds(a.rule[i], replay)) return;
      const std::int64_t first = task * kChunk;
      const std::int64_t left = a.elements[i] - first;
      a.kernels->fill({a.table[i] + first, left < kChunk ? left : kChunk, 0.0f});
      return;
    }
  }
};

// Threads share a table by columns, so that each row's sum is in the order of the tokens.
struct BackwardArguments {
  static constexpr std::int64_t kColumns = 64;
  const KernelTable* kernels;
  float *d_word, *d_position, *d_type;
  const float* d_out;
  std::int64_t cols;
  std::int32_t padding;
  static std::int64_t tasks(const BackwardArguments& a, const Replay&) { return divide_up(a.cols, kColumns); }
  static void run(const BackwardArguments& a, const Replay& replay, std::int64_t task, int) {
    const std::int64_t first = task * kColumns;
    const std::int64_t last = first + kColumns < a.cols ? first + kColumns : a.cols;
    const BatchView& batch = replay.batch;
    const std::int64_t rows = batch.counts.text_rows;
    if (a.d_word != nullptr)
      a.kernels->embedding_backward({a.d_word, a.d_out, batch.token_ids, rows, a.cols, first, last, a.padding});
    if (a.d_position != nullptr) {
      a.kernels->embedding_backward({a.d_position, a.d_out, batch.position_ids, rows, a.cols, first, last, a.padding});
    }
    if (a.d_type == nullptr) return;
    float part[kColumns];
    a.kernels->column_sums({part, a.d_out + first, rows, last - first, a.cols});
    a.kernels->add({a.d_type + first, a.d_type + first, part, last - first});
  }
};

class TextEmbeddingGradient final : public Operation {
 public:
  Tensor d_out;
  Backward::Slot slots[3];  // word, position, type
  std::int64_t elements[3] = {0, 0, 0};
  std::int64_t cols = 0;
  std::int32_t padding = -1;

  const char* kind() const override { return "text_embedding_backward"; }
  std::vector<TensorUse> uses() const override {
    std::vector<TensorUse> uses = {{d_out, Access::kRead}};
    add_slots(&uses, {slots[0], slots[1], slots[2]});
    return uses;
  }
  Cost cost(const BatchCounts& counts) const override {
    double bytes = 12.0 * static_cast<double>(counts.text_rows * cols);
    for (const std::int64_t count : elements) bytes += 4.0 * static_cast<double>(count);
    return {3.0 * static_cast<double>(counts.text_rows * cols), bytes};
  }
  void launch(Launch& launch) const override {
    ClearArguments clear{};
    clear.kernels = &launch.kernels;
    for (int i = 0; i < 3; ++i) {
      clear.table[i] = launch.at(slots[i].gradient);
      clear.elements[i] = slots[i] && slots[i].accumulate != Accumulate::kYes ? elements[i] : 0;
      clear.rule[i] = slots[i].accumulate;
    }
    launch.step(clear);
    launch.step(BackwardArguments{&launch.kernels, clear.table[0], clear.table[1], clear.table[2], launch.at(d_out),
                                  cols, padding});
  }
};

class TextEmbedding final : public Operation {
 public:
  Tensor out, tables[3];
  std::int64_t elements[3] = {0, 0, 0};
  std::int64_t cols = 0;
  std::int32_t padding = -1;

  const char* kind() const override { return "text_embedding"; }
  std::vector<TensorUse> uses() const override {
    return {{tables[0], Access::kRead}, {tables[1], Access::kRead}, {tables[2], Access::kRead}, {out, Access::kWrite}};
  }
  Cost cost(const BatchCounts& counts) const override {
    const double values = static_cast<double>(counts.text_rows * cols);
    return {2.0 * values, 12.0 * values};
  }
  void derive(Backward& b) const override {
    const Tensor d_out = b.gradient(out);
    if (!d_out || !b.wants(out)) return;
    auto op = std::make_unique<TextEmbeddingGradient>();
    op->d_out = d_out;
    for (int i = 0; i < 3; ++i) {
      op->slots[i] = b.slot(tables[i]);
      op->elements[i] = elements[i];
    }
    op->cols = cols;
    op->padding = padding;
    b.emit(std::move(op));
  }
  void launch(Launch& launch) const override {
    launch.step(ForwardArguments{&launch.kernels, launch.at(out), launch.at(tables[0]), launch.at(tables[1]),
                                 launch.at(tables[2]), cols});
  }
};

struct DropoutArguments {
  const KernelTable* kernels;
  float* y;
  const float* x;
  std::int64_t cols;
  DropoutPlace place;
  static std::int64_t tasks(const DropoutArguments& a, const Replay& replay) {
    return row_tasks(replay.batch.counts.text_rows, a.cols);
  }
  static void run(const DropoutArguments& a, const Replay& replay, std::int64_t task, int) {
    const RowRange range = rows_of_task(task, replay.batch.counts.text_rows, a.cols);
    const std::int64_t from = range.first * a.cols;
    a.kernels->dropout_forward({a.y + from, a.x + from, replay.batch.text_row_keys + range.first, range.count, a.cols,
                                dropout_stream(a.place, replay)});
  }
};

// The same operation forward, and on gradients backward.
class Dropout final : public Operation {
 public:
  Tensor y, x;
  std::int64_t cols = 0;
  DropoutPlace place;
  bool is_backward = false;

  const char* kind() const override { return is_backward ? "dropout_backward" : "dropout"; }
  std::vector<TensorUse> uses() const override { return {{x, Access::kRead}, {y, Access::kWrite}}; }
  Cost cost(const BatchCounts& counts) const override {
    const double values = static_cast<double>(counts.text_rows * cols);
    return {20.0 * values, 8.0 * values};
  }
  void derive(Backward& b) const override {
    const Tensor d_y = b.gradient(y);
    if (is_backward || !d_y || !b.wants(x)) return;
    const Backward::Slot slot = b.slot(x);
    BASCULE_CHECK(slot.accumulate == Accumulate::kNo);  // the model drops the embeddings only, which nothing else reads
    b.graph().may_share(slot.gradient, d_y);
    auto op = std::make_unique<Dropout>();
    op->y = slot.gradient;
    op->x = d_y;
    op->cols = cols;
    op->place = place;
    op->is_backward = true;
    b.emit(std::move(op));
  }
  void launch(Launch& launch) const override {
    launch.step(DropoutArguments{&launch.kernels, launch.at(y), launch.at(x), cols, place});
  }
};

}  // namespace

Tensor text_embedding(Graph& graph, const std::string& name, Tensor word, Tensor position, Tensor type,
                      std::int32_t padding) {
  auto op = std::make_unique<TextEmbedding>();
  op->tables[0] = word;
  op->tables[1] = position;
  op->tables[2] = type;
  for (int i = 0; i < 3; ++i) op->elements[i] = graph[op->tables[i]].rows.fixed * graph[op->tables[i]].cols;
  op->cols = graph[word].cols;
  op->padding = padding;
  op->out = graph.activation(name, text_rows(), op->cols);
  const Tensor out = op->out;
  graph.add(std::move(op));
  return out;
}

Tensor dropout(Graph& graph, const std::string& name, Tensor x, DropoutPlace place) {
  if (place.probability <= 0.0f) return x;
  auto op = std::make_unique<Dropout>();
  op->x = x;
  op->cols = graph[x].cols;
  op->place = place;
  op->y = graph.activation(name, text_rows(), op->cols);
  graph.may_share(op->y, x);
  const Tensor y = op->y;
  graph.add(std::move(op));
  return y;
}

}  // namespace bascule
