// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "src/base/check.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"
#include "src/graph/operations/accumulate.h"
#include "src/graph/operations/dropout_stream.h"

namespace bascule {
namespace {

struct Span64 {
  std::int64_t first, count;
};

Span64 rows_of_sample(const SampleRows& rows, const BatchView& batch, std::int64_t sample) {
  if (!rows.text) return {sample * rows.per_sample, rows.per_sample};
  const std::int64_t first = batch.text_offsets[sample];
  return {first, batch.text_offsets[sample + 1] - first};
}

// One operand's first element of a head, and its row stride.
struct Slice {
  float* data;
  std::int64_t stride, col;
  float* at(std::int64_t row, std::int64_t head_col) const { return data + row * stride + col + head_col; }
};

struct Shape {
  SampleRows query_rows, key_rows;
  std::int64_t heads, head_size;
  float scale;
  DropoutPlace dropout;
};

struct ForwardArguments {
  const KernelTable* kernels;
  Shape shape;
  Slice out, query, key, value;
  float* logsumexp;  // (query rows, heads), one head after another: (heads, rows) of a sample
  static std::int64_t tasks(const ForwardArguments& a, const Replay& replay) {
    return replay.batch.counts.samples * a.shape.heads;
  }
  static void run(const ForwardArguments& a, const Replay& replay, std::int64_t task, int thread) {
    const Shape& s = a.shape;
    const std::int64_t sample = task / s.heads, head = task % s.heads;
    const Span64 q = rows_of_sample(s.query_rows, replay.batch, sample),
                 k = rows_of_sample(s.key_rows, replay.batch, sample);
    const std::int64_t col = head * s.head_size;
    const std::uint64_t number = s.dropout.probability > 0.0f ? replay.batch.sample_keys[sample] >> 16 : 0;
    a.kernels->attention_forward({a.out.at(q.first, col), a.logsumexp + q.first * s.heads + head * q.count,
                                  a.query.at(q.first, col), a.key.at(k.first, col), a.value.at(k.first, col),
                                  a.out.stride, a.query.stride, a.key.stride, a.value.stride, q.count, k.count,
                                  s.head_size, s.scale, dropout_stream(s.dropout, replay), number, 0, head,
                                  replay.scratch(thread)});
  }
};

struct BackwardArguments {
  const KernelTable* kernels;
  Shape shape;
  Slice d_query, d_key, d_value, d_out, query, key, value;
  const float* logsumexp;
  static std::int64_t tasks(const BackwardArguments& a, const Replay& replay) {
    return replay.batch.counts.samples * a.shape.heads;
  }
  static void run(const BackwardArguments& a, const Replay& replay, std::int64_t task, int thread) {
    const Shape& s = a.shape;
    const std::int64_t sample = task / s.heads, head = task % s.heads;
    const Span64 q = rows_of_sample(s.query_rows, replay.batch, sample),
                 k = rows_of_sample(s.key_rows, replay.batch, sample);
    const std::int64_t col = head * s.head_size;
    const std::uint64_t number = s.dropout.probability > 0.0f ? replay.batch.sample_keys[sample] >> 16 : 0;
    AttentionBackward b{};
    b.d_query = a.d_query.at(q.first, col);
    b.d_key = a.d_key.at(k.first, col);
    b.d_value = a.d_value.at(k.first, col);
    b.d_out = a.d_out.at(q.first, col);
    b.logsumexp = a.logsumexp + q.first * s.heads + head * q.count;
    b.query = a.query.at(q.first, col);
    b.key = a.key.at(k.first, col);
    b.value = a.value.at(k.first, col);
    b.d_query_stride = a.d_query.stride;
    b.d_key_stride = a.d_key.stride;
    b.d_value_stride = a.d_value.stride;
    b.d_out_stride = a.d_out.stride;
    b.query_stride = a.query.stride;
    b.key_stride = a.key.stride;
    b.value_stride = a.value.stride;
    b.query_rows = q.count;
    b.key_rows = k.count;
    b.head_size = s.head_size;
    b.scale = s.scale;
    b.dropout = dropout_stream(s.dropout, replay);
    b.sample = number;
    b.head = head;
    b.scratch = replay.scratch(thread);
    a.kernels->attention_backward(b);
  }
};

// Operands may be slices of one tensor: each tensor is listed once.
void add_once(std::vector<TensorUse>* uses, Tensor tensor, Access access) {
  for (const TensorUse& use : *uses) {
    if (use.tensor == tensor) return;
  }
  uses->push_back({tensor, access});
}

class AttentionOperation : public Operation {
 public:
  Tensor out, logsumexp;
  AttentionOperand query, key, value;
  Shape shape{};
  std::int64_t max_key_rows = 0;

  const char* kind() const override { return "attention"; }
  std::vector<TensorUse> uses() const override {
    std::vector<TensorUse> uses;
    for (const AttentionOperand& operand : {query, key, value}) add_once(&uses, operand.tensor, Access::kRead);
    uses.insert(uses.end(), {{out, Access::kWrite}, {logsumexp, Access::kWrite}});
    return uses;
  }
  Cost cost(const BatchCounts& counts) const override { return cost_of(counts, 2.0); }
  std::int64_t thread_scratch_floats() const override {
    return attention_scratch_floats(max_key_rows, shape.head_size);
  }
  void derive(Backward& b) const override;
  void launch(Launch& launch) const override {
    launch.step(ForwardArguments{&launch.kernels, shape, slice(launch, {out, 0}), slice(launch, query),
                                 slice(launch, key), slice(launch, value), launch.at(logsumexp)});
  }

 protected:
  static Slice slice(const Launch& launch, const AttentionOperand& operand) {
    return {launch.at(operand.tensor), launch.cols(operand.tensor), operand.col};
  }
  // Products of (query rows x key rows x head size), with the mean caption for packed text.
  Cost cost_of(const BatchCounts& counts, double products) const {
    const double samples = static_cast<double>(counts.samples);
    const double text = samples > 0.0 ? static_cast<double>(counts.text_rows) / samples : 0.0;
    const double q = shape.query_rows.text ? text : static_cast<double>(shape.query_rows.per_sample);
    const double k = shape.key_rows.text ? text : static_cast<double>(shape.key_rows.per_sample);
    const double width = static_cast<double>(shape.heads * shape.head_size);
    return {2.0 * products * samples * q * k * width, 4.0 * samples * width * (2.0 * q + 2.0 * k)};
  }
};

class AttentionGradient final : public AttentionOperation {
 public:
  Tensor d_out;
  AttentionOperand d_query, d_key, d_value;

  const char* kind() const override { return "attention_backward"; }
  std::vector<TensorUse> uses() const override {
    std::vector<TensorUse> uses = {{d_out, Access::kRead}, {logsumexp, Access::kRead}};
    for (const AttentionOperand& operand : {query, key, value}) add_once(&uses, operand.tensor, Access::kRead);
    for (const AttentionOperand& operand : {d_query, d_key, d_value}) add_once(&uses, operand.tensor, Access::kWrite);
    return uses;
  }
  Cost cost(const BatchCounts& counts) const override { return cost_of(counts, 5.0); }
  void derive(Backward&) const override {}
  void launch(Launch& launch) const override {
    launch.step(BackwardArguments{&launch.kernels, shape, slice(launch, d_query), slice(launch, d_key),
                                  slice(launch, d_value), slice(launch, {d_out, 0}), slice(launch, query),
                                  slice(launch, key), slice(launch, value), launch.at(logsumexp)});
  }
};

void AttentionOperation::derive(Backward& b) const {
  const Tensor d_out = b.gradient(out);
  if (!d_out) return;
  auto op = std::make_unique<AttentionGradient>();
  op->d_out = d_out;
  op->logsumexp = logsumexp;
  op->query = query;
  op->key = key;
  op->value = value;
  op->shape = shape;
  op->max_key_rows = max_key_rows;
  // Slices of one tensor have slices of one gradient, which this operation writes whole: nobody else reads the
  // projections.
  const auto gradient_of = [&](const AttentionOperand& operand) {
    const bool first = b.untouched(operand.tensor);
    const Backward::Slot slot =
        first ? b.slot(operand.tensor) : Backward::Slot{b.gradient(operand.tensor), Accumulate::kNo};
    return AttentionOperand{slot.gradient, operand.col};
  };
  BASCULE_CHECK(b.untouched(query.tensor) && b.untouched(key.tensor) && b.untouched(value.tensor));
  op->d_query = gradient_of(query);
  op->d_key = gradient_of(key);
  op->d_value = gradient_of(value);
  // The kernel writes all three. Where only some are trained the others are written to gradients that nobody reads.
  for (AttentionOperand* operand : {&op->d_query, &op->d_key, &op->d_value}) {
    if (operand->tensor) continue;
    const AttentionOperand& source = operand == &op->d_query ? query : operand == &op->d_key ? key : value;
    const TensorInfo info = b.graph()[source.tensor];
    *operand = {b.graph().activation("d_unused", info.rows, info.cols), source.col};
  }
  b.emit(std::move(op));
}

}  // namespace

Tensor attention(Graph& graph, const std::string& name, AttentionOperand query, SampleRows query_rows,
                 AttentionOperand key, AttentionOperand value, SampleRows key_rows, std::int64_t heads,
                 std::int64_t head_size, DropoutPlace dropout) {
  auto op = std::make_unique<AttentionOperation>();
  op->query = query;
  op->key = key;
  op->value = value;
  op->shape = {
      query_rows, key_rows, heads, head_size, static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_size))),
      dropout};
  // A batch of one sample may have a caption as long as the bound of all captions.
  op->max_key_rows = key_rows.text ? graph.bounds().text_rows : key_rows.per_sample;
  if (op->max_key_rows < 1) op->max_key_rows = 1;
  op->out = graph.activation(name, query_rows.extent(), heads * head_size);
  op->logsumexp = graph.activation(name + ".logsumexp", query_rows.extent(), heads);
  const Tensor out = op->out;
  graph.add(std::move(op));
  return out;
}

}  // namespace bascule
