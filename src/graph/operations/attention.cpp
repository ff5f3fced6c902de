// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "src/base/check.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace attention_operation {

// Attributes of the operation and of its gradient.
struct Shape {
  std::int64_t query_col, key_col, value_col;
  std::int64_t heads, head_size, max_query_rows, max_key_rows;
  float scale;
  bool causal;
  DropoutPlace dropout;
};

// The samples that a tensor's rows belong to: see SampleRows.
struct SampleIndex {
  const std::int32_t* offsets;
  std::int64_t rows_each;
  Range operator()(std::int64_t sample) const {
    if (offsets == nullptr) return {sample * rows_each, rows_each, sample};
    return {offsets[sample], offsets[sample + 1] - offsets[sample], sample};
  }
};

// One operand's first element of a head, and its row stride.
struct Slice {
  Elements data;
  std::int64_t stride, col;
  Elements at(std::int64_t row, std::int64_t head_col) const { return data + (row * stride + col + head_col); }
};

// Whole tensors; a task is one head of one sample, or, forward, a group of its query rows.
template <typename Kernel>
struct Block {
  void (*kernel)(const Kernel&);
  Slice out, query, key, value;   // out: d_out backward
  Slice d_query, d_key, d_value;  // backward
  float* logsumexp;               // (query rows, heads), one head after another: (heads, rows) of a sample
  SampleIndex query_rows, key_rows;
  std::int64_t heads, head_size;
  std::int64_t group_rows, groups;  // of a head's query rows; backward: one group of all
  float scale;
  DropoutStream dropout;
  const std::uint64_t *sample_keys, *query_keys;
  bool causal;
  const float* bias;  // (heads, distances); null: none
  std::int64_t distances;
  // Backward: (samples, heads, distances), null where the bias has no gradient.
  float* d_bias_parts;
  void (*fill)(const Fill&);
  float* scratch;
};

// The members that both kernels have.
template <typename Kernel>
Kernel kernel_arguments(const Block<Kernel>& b, std::int64_t sample, std::int64_t head, const Range& q,
                        const Range& k) {
  const std::int64_t col = head * b.head_size;
  Kernel a{};
  a.logsumexp = b.logsumexp + q.first * b.heads + head * q.count;
  a.query = b.query.at(q.first, col);
  a.key = b.key.at(k.first, col);
  a.value = b.value.at(k.first, col);
  a.query_stride = b.query.stride;
  a.key_stride = b.key.stride;
  a.value_stride = b.value.stride;
  a.query_rows = q.count;
  a.key_rows = k.count;
  a.head_size = b.head_size;
  a.scale = b.scale;
  a.dropout = b.dropout;
  a.sample = b.sample_keys != nullptr ? b.sample_keys[sample] >> 16 : 0;
  a.query_keys = b.query_keys != nullptr ? b.query_keys + q.first : nullptr;
  a.head = head;
  a.causal = b.causal;
  if (b.bias != nullptr) a.bias = b.bias + head * b.distances + b.distances / 2;
  if (b.causal || b.bias != nullptr) a.query_position = k.count - q.count;
  a.scratch = b.scratch;
  return a;
}

void run_forward(const Block<AttentionForward>& b, Range range, int) {
  const std::int64_t head = range.task / b.groups % b.heads, sample = range.task / b.groups / b.heads;
  const Range q = b.query_rows(sample), k = b.key_rows(sample);
  const std::int64_t first = range.task % b.groups * b.group_rows;
  if (first >= q.count) return;  // others have more rows
  AttentionForward a = kernel_arguments(b, sample, head, q, k);
  a.out = b.out.at(q.first + first, head * b.head_size);
  a.out_stride = b.out.stride;
  a.query += first * a.query_stride;
  a.logsumexp += first;
  if (a.query_keys != nullptr) a.query_keys += first;
  a.query_position += first;
  a.query_rows = std::min(b.group_rows, q.count - first);
  b.kernel(a);
}

void run_backward(const Block<AttentionBackward>& b, Range range, int) {
  const std::int64_t head = range.task % b.heads, sample = range.task / b.heads;
  const Range q = b.query_rows(sample), k = b.key_rows(sample);
  AttentionBackward a = kernel_arguments(b, sample, head, q, k);
  const std::int64_t col = head * b.head_size;
  a.d_query = b.d_query.at(q.first, col);
  a.d_key = b.d_key.at(k.first, col);
  a.d_value = b.d_value.at(k.first, col);
  a.d_out = b.out.at(q.first, col);
  a.d_query_stride = b.d_query.stride;
  a.d_key_stride = b.d_key.stride;
  a.d_value_stride = b.d_value.stride;
  a.d_out_stride = b.out.stride;
  if (b.d_bias_parts != nullptr) {
    float* const part = b.d_bias_parts + range.task * b.distances;
    b.fill({part, b.distances, 0.0f});
    a.d_bias = part + b.distances / 2;
  }
  b.kernel(a);
}

// Places that both have; the gradient's d_out stands at kOut.
enum : std::size_t {
  kQuery,
  kKey,
  kValue,
  kQueryOffsets,
  kKeyOffsets,
  kSampleKeys,
  kQueryKeys,
  kBias,
  kOut,
  kLogsumexp,
  kDQuery,
  kDKey,
  kDValue,
  kDBiasParts,  // (samples, heads * distances)
  kDBias
};

// Texts that offsets divide rows into: one a sample, or more. Queries without offsets may be of another stream than
// samples.
Extent samples_of(const NodeView& node) {
  const Extent queries = node.rows(kQuery);
  for (const std::size_t offsets : {kQueryOffsets, kKeyOffsets}) {
    if (!node[offsets]) continue;
    const Extent ends = node.rows(offsets);
    if (offsets == kQueryOffsets || ends.stream == queries.stream) return rows_of_stream(ends.stream, ends.per_row);
  }
  return rows_of_stream(queries.stream);
}

// Rows of a sample without offsets: each has as many.
std::int64_t rows_each(const NodeView& node, std::size_t place) {
  return node.rows(place).per_row / samples_of(node).per_row;
}

// Rows of a sample: with offsets the mean of the batch.
double mean_rows(const NodeView& node, std::size_t place, std::size_t offsets, const BatchCounts& counts) {
  if (!node[offsets]) return static_cast<double>(rows_each(node, place));
  return static_cast<double>(node.rows(place).at(counts)) / static_cast<double>(samples_of(node).at(counts));
}

// products: of (query rows x key rows that a query sees x head size). passes: how many tensors of query's rows, and as
// many of key's rows, are read or written.
Cost cost_of(const NodeView& node, const BatchCounts& counts, double products, double passes) {
  const Shape shape = node.as<Shape>();
  const double samples = static_cast<double>(samples_of(node).at(counts));
  if (samples <= 0.0) return {};
  const double q = mean_rows(node, kQuery, kQueryOffsets, counts), k = mean_rows(node, kKey, kKeyOffsets, counts);
  const double seen = shape.causal ? std::max(1.0, k - (q - 1.0) / 2.0) : k;
  const double width = static_cast<double>(shape.heads * shape.head_size);
  return {2.0 * products * samples * q * seen * width, 4.0 * samples * width * passes * (q + k)};
}

std::int64_t forward_scratch_floats(const NodeView& node) {
  const Shape shape = node.as<Shape>();
  return attention_forward_scratch_floats(shape.max_key_rows, shape.head_size);
}
std::int64_t backward_scratch_floats(const NodeView& node) {
  const Shape shape = node.as<Shape>();
  return attention_backward_scratch_floats(shape.max_key_rows, shape.head_size);
}

// Each task packs the keys again. Where there is one head that costs less than threads without a task.
std::int64_t rows_per_task_of(const Shape& shape) {
  return shape.heads > 1 ? kAttentionQueryGroup : kAttentionQueryGroup / 2;
}

template <typename Kernel>
void launch_kernel(const NodeView& node, Launch& l, void (*kernel)(const Kernel&),
                   void (*run)(const Block<Kernel>&, Range, int), bool backward) {
  const Shape shape = node.as<Shape>();
  const auto slice = [&](std::size_t place, std::int64_t col) {
    return Slice{l.elements(node[place]), node.cols(place), col};
  };
  Block<Kernel> block{};
  block.kernel = kernel;
  block.out = slice(kOut, 0);
  block.query = slice(kQuery, shape.query_col);
  block.key = slice(kKey, shape.key_col);
  block.value = slice(kValue, shape.value_col);
  if (backward) {
    block.d_query = slice(kDQuery, shape.query_col);
    block.d_key = slice(kDKey, shape.key_col);
    block.d_value = slice(kDValue, shape.value_col);
  }
  block.logsumexp = l.at(node[kLogsumexp]);
  block.query_rows = {nullptr, rows_each(node, kQuery)};
  block.key_rows = {nullptr, rows_each(node, kKey)};
  block.heads = shape.heads;
  block.group_rows = rows_per_task_of(shape);
  block.groups = backward ? 1 : divide_up(shape.max_query_rows, block.group_rows);
  block.head_size = shape.head_size;
  block.scale = shape.scale;
  block.causal = shape.causal;
  block.bias = l.at(node[kBias]);
  block.distances = block.bias != nullptr ? node.cols(kBias) : 0;
  block.d_bias_parts = backward ? l.at(node[kDBiasParts]) : nullptr;
  block.fill = l.kernels.fill;
  Block<Kernel>* const stored = l.step(block, {samples_of(node).times(shape.heads * block.groups), 1}, run);
  l.operand(&stored->query_rows.offsets, node[kQueryOffsets]);
  l.operand(&stored->key_rows.offsets, node[kKeyOffsets]);
  l.operand(&stored->sample_keys, node[kSampleKeys]);
  l.operand(&stored->query_keys, node[kQueryKeys]);
  l.dropout(&stored->dropout, shape.dropout);
  l.scratch(&stored->scratch);
}

Cost backward_cost(const NodeView& node, const BatchCounts& counts) { return cost_of(node, counts, 5.0, 4.0); }

void launch_backward(const NodeView& node, Launch& l) {
  launch_kernel(node, l, l.kernels.attention_backward, run_backward, true);
  const Operand d_bias = node.operand(kDBias);
  if (!d_bias) return;
  const std::int64_t cols = node.cols(kDBiasParts);
  l.begin_step();
  l.add_sum_of_parts(d_bias, l.at(node[kDBiasParts]), cols, cols, {node.rows(kDBiasParts), 1});
}

constexpr std::uint32_t kBf16Places = places(kQuery, kKey, kValue, kOut),
                        kGradientPlaces = kBf16Places | places(kDQuery, kDKey, kDValue);
constexpr OperationKind kGradient{"attention_backward",    backward_cost,  launch_backward, nullptr,
                                  backward_scratch_floats, kGradientPlaces};

Cost cost(const NodeView& node, const BatchCounts& counts) { return cost_of(node, counts, 2.0, 2.0); }

void launch(const NodeView& node, Launch& l) {
  launch_kernel(node, l, l.kernels.attention_forward, run_forward, false);
}

// Slices of one tensor have slices of one gradient, which this operation writes whole: nobody else reads the
// projections. The kernel writes all three. Where only some are trained the others are written to gradients that nobody
// reads.
void derive(const NodeView& node, Backward& b) {
  const Tensor d_out = b.gradient(node[kOut]);
  if (!d_out) return;
  for (const std::size_t place : {kQuery, kKey, kValue}) BASCULE_CHECK(b.untouched(node[place]));
  std::vector<Operand> operands;
  for (std::size_t place = kQuery; place <= kBias; ++place) operands.push_back(reads(node[place]));
  operands.insert(operands.end(), {reads(d_out), reads(node[kLogsumexp])});
  Tensor gradients[3];
  for (const std::size_t place : {kQuery, kKey, kValue})
    gradients[place] = b.untouched(node[place]) ? b.slot(node[place]).tensor : b.gradient(node[place]);
  for (const std::size_t place : {kQuery, kKey, kValue}) {
    if (!gradients[place]) gradients[place] = b.graph().activation_like("d_unused", node[place], node.cols(place));
    operands.push_back(writes(gradients[place]));
  }
  if (const Operand d_bias = b.slot(node[kBias])) {
    const std::int64_t cols = node.rows(kBias).fixed * node.cols(kBias);
    operands.push_back(writes(b.graph().activation("d_bias_parts", samples_of(node), cols)));
    operands.push_back(d_bias);
  }
  b.emit(kGradient, std::move(operands), node.attributes());
}

constexpr OperationKind kKind{"attention", cost, launch, derive, forward_scratch_floats, kBf16Places};

// The most rows of one sample. Where nothing is known of the longest, a batch of one sample may have the rows of all.
std::int64_t most_rows(const BatchCounts& bounds, const SampleRows& rows) {
  if (!rows.offsets) return std::max<std::int64_t>(1, rows.extent.per_row);
  const std::int64_t all = rows.extent.at(bounds), longest = bounds.longest[rows.extent.stream];
  return std::max<std::int64_t>(1, longest > 0 ? std::min(all, longest) : all);
}

}  // namespace attention_operation
}  // namespace

Tensor attention(Graph& graph, const std::string& name, AttentionOperand query, const SampleRows& query_rows,
                 AttentionOperand key, AttentionOperand value, const SampleRows& key_rows, std::int64_t heads,
                 std::int64_t head_size, DropoutPlace dropout, Tensor sample_keys, const AttentionOptions& options) {
  attention_operation::Shape shape{query.col,
                                   key.col,
                                   value.col,
                                   heads,
                                   head_size,
                                   attention_operation::most_rows(graph.bounds(), query_rows),
                                   attention_operation::most_rows(graph.bounds(), key_rows),
                                   options.scale,
                                   options.causal,
                                   dropout};
  if (shape.scale == 0.0f) shape.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_size)));
  BASCULE_CHECK(!options.bias || graph[options.bias].rows == fixed_rows(heads));
  const Tensor out = graph.activation(name, query_rows.extent, heads * head_size, graph[query.tensor].dtype);
  const Tensor logsumexp = graph.activation(name + ".logsumexp", query_rows.extent, heads);
  graph.add(attention_operation::kKind,
            {reads(query.tensor), reads(key.tensor), reads(value.tensor), reads(query_rows.offsets),
             reads(key_rows.offsets), reads(dropout.probability > 0.0f ? sample_keys : Tensor{}),
             reads(dropout.probability > 0.0f && query_rows.are_picked ? query_rows.row_keys : Tensor{}),
             reads(options.bias), writes(out), writes(logsumexp)},
            Attributes::of(shape));
  return out;
}

}  // namespace bascule
