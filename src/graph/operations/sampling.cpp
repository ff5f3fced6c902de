// SPDX-License-Identifier: Apache-2.0
// The surroundings of a diffusion model in one call of a sampler: its input out of a slot of latents, its output into
// another one, and the step behind it.
#include "kernels/sampling.h"

#include "src/base/check.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace sampling_operations {

// Elements that one task takes: few, so that also one picture of a small model is shared by several threads.
constexpr std::int64_t kElementsPerTask = 2048;

// Columns of SamplingFields::numbers.
enum : std::size_t { kX, kOutputSlot, kNext, kFirstPicture, kNumbers };

struct Shape {
  Extent rows;
  std::int64_t slots, pictures, pixels, channels;
  std::int64_t copies;  // of the input
  float guidance;

  std::int64_t picture_elements() const { return pixels * channels; }
  std::int64_t slot_stride() const { return pictures * picture_elements(); }
  TaskSplit split() const { return {rows.times(channels), kElementsPerTask}; }
};

Shape shape_of(const LatentSlots& latents, Extent rows) {
  return {rows, latents.slots, latents.pictures, latents.pixels, latents.channels, 1, 1.0f};
}

void check_operands(const Graph& graph, const LatentSlots& latents, Extent rows, const SamplingFields& call) {
  BASCULE_CHECK(graph[latents.state].storage == Storage::kState);
  BASCULE_CHECK(rows.at(graph.bounds()) <= latents.pictures * latents.pixels);
  BASCULE_CHECK(graph[call.scales].cols == 1 + latents.slots);
  BASCULE_CHECK(graph[call.numbers].cols == static_cast<std::int64_t>(kNumbers));
}

namespace input {
enum : std::size_t { kState, kScales, kNumbersOperand, kOut };

// Whole tensors.
struct Block {
  void (*kernel)(const Scale&);
  float* out;
  const float* state;
  const float* scales;
  const std::int32_t* numbers;
  std::int64_t slot_stride, picture_elements, rows, channels, copies;
};

void run(const Block& b, Range range, int) {
  const float* const x = b.state + b.numbers[kX] * b.slot_stride + b.numbers[kFirstPicture] * b.picture_elements;
  for (std::int64_t copy = 0; copy < b.copies; ++copy) {
    float* const out = b.out + copy * b.rows * b.channels;
    b.kernel({out + range.first, x + range.first, range.count, b.scales[0], false});
  }
}

void launch(const NodeView& node, Launch& l) {
  const Shape shape = node.as<Shape>();
  Block* const b = l.step(Block{l.kernels.scale, l.at(node[kOut]), l.at(node[kState]), nullptr, nullptr,
                                shape.slot_stride(), shape.picture_elements(), 0, shape.channels, shape.copies},
                          shape.split(), run);
  l.operand(&b->scales, node[kScales]);
  l.operand(&b->numbers, node[kNumbersOperand]);
  l.rows(&b->rows, shape.rows);
}

constexpr OperationKind kKind{"sampling_input", cost_by_elements<kOut, 1, 8>, launch};
}  // namespace input

namespace step {
enum : std::size_t { kE, kScales, kNumbersOperand, kState };

// Whole tensors.
struct Block {
  void (*kernel)(const SamplingStep&);
  SamplingStep whole;  // of the first picture of a batch, without the numbers of slots
  const float* scales;
  const std::int32_t* numbers;
  std::int64_t picture_elements, rows, channels;
};

void run(const Block& b, Range range, int) {
  SamplingStep a = b.whole;
  a.slots += b.numbers[kFirstPicture] * b.picture_elements + range.first;
  if (a.guidance > 1.0f) a.with_prompt = a.output + b.rows * b.channels + range.first;
  a.output += range.first;
  a.weights = b.scales + 1;
  a.count = range.count;
  a.output_slot = b.numbers[kOutputSlot];
  a.next_slot = b.numbers[kNext];
  b.kernel(a);
}

// As if half of the slots had a weight.
Cost cost(const NodeView& node, const BatchCounts& counts) {
  const Shape shape = node.as<Shape>();
  const double elements = static_cast<double>(shape.rows.at(counts) * shape.channels);
  const double read = static_cast<double>(shape.slots) / 2.0 + (shape.guidance > 1.0f ? 2.0 : 1.0);
  return {2.0 * read * elements, 4.0 * (read + 2.0) * elements};
}

void launch(const NodeView& node, Launch& l) {
  const Shape shape = node.as<Shape>();
  Block block{};
  block.kernel = l.kernels.sampling_step;
  block.whole.slots = l.at(node[kState]);
  block.whole.output = l.at(node[kE]);
  block.whole.slot_stride = shape.slot_stride();
  block.whole.slot_count = shape.slots;
  block.whole.guidance = shape.guidance;
  block.picture_elements = shape.picture_elements();
  block.channels = shape.channels;
  Block* const b = l.step(block, shape.split(), run);
  l.operand(&b->scales, node[kScales]);
  l.operand(&b->numbers, node[kNumbersOperand]);
  l.rows(&b->rows, shape.rows);
}

constexpr OperationKind kKind{"sampling_step", cost, launch};
}  // namespace step

}  // namespace sampling_operations
}  // namespace

LatentSlots latent_slots(Graph& graph, const std::string& name, std::int64_t slots, std::int64_t pictures,
                         std::int64_t pixels, std::int64_t channels) {
  BASCULE_CHECK(slots >= 2 && slots <= kMaxSamplingSlots);
  return {graph.state({name, slots * pictures, pixels * channels}), slots, pictures, pixels, channels};
}

Tensor sampling_input(Graph& graph, const std::string& name, const LatentSlots& latents, Extent rows,
                      const SamplingFields& call, Extent out_rows) {
  sampling_operations::check_operands(graph, latents, rows, call);
  const std::int64_t all = out_rows.at(graph.bounds()), once = rows.at(graph.bounds());
  BASCULE_CHECK(all % once == 0);
  const Tensor out = graph.activation(name, out_rows, latents.channels);
  sampling_operations::Shape shape = sampling_operations::shape_of(latents, rows);
  shape.copies = all / once;
  graph.add(sampling_operations::input::kKind,
            {reads(latents.state), reads(call.scales), reads(call.numbers), writes(out)}, Attributes::of(shape));
  return out;
}

void sampling_step(Graph& graph, const LatentSlots& latents, Extent rows, Tensor e, float guidance,
                   const SamplingFields& call) {
  sampling_operations::check_operands(graph, latents, rows, call);
  const std::int64_t halves = guidance > 1.0f ? 2 : 1;
  BASCULE_CHECK(graph[e].cols == latents.channels && graph.max_rows(e) == halves * rows.at(graph.bounds()));
  sampling_operations::Shape shape = sampling_operations::shape_of(latents, rows);
  shape.guidance = guidance;
  graph.add(sampling_operations::step::kKind,
            {reads(e), reads(call.scales), reads(call.numbers), updates(latents.state)}, Attributes::of(shape));
}

}  // namespace bascule
