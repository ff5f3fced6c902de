// SPDX-License-Identifier: Apache-2.0
#include "tests/graph/graph_run.h"
#include "tests/support/own_products.h"

#include <algorithm>
#include <cmath>

#include "src/base/check.h"

namespace bascule::test {

TestBatch::TestBatch(Seeded& random, const std::vector<std::int64_t>& lengths, std::int64_t vocabulary,
                     std::int64_t select_every) {
  offsets.push_back(0);
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    sample_keys.push_back(row_key(s, 0));
    for (std::int64_t t = 0; t < lengths[s]; ++t) {
      if (static_cast<std::int64_t>(ids.size()) % select_every == 1)
        selected.push_back(static_cast<std::int32_t>(ids.size()));
      ids.push_back(static_cast<std::int32_t>(random.integer(0, vocabulary - 1)));
      positions.push_back(static_cast<std::int32_t>(2 + t));
      types.push_back(2 * t >= lengths[s] ? 1 : 0);
      text_keys.push_back(row_key(s, static_cast<std::uint64_t>(t)));
    }
    offsets.push_back(static_cast<std::int32_t>(ids.size()));
  }
}

void TestBatch::add_pictures(Seeded& random, std::int64_t elements, std::int64_t rows) {
  pixels.resize(static_cast<std::size_t>(samples() * elements));
  random.fill_normal(pixels.data(), pixels.size());
  for (std::int64_t s = 0; s < samples(); ++s) {
    for (std::int64_t r = 0; r < rows; ++r)
      image_keys.push_back(row_key(static_cast<std::uint64_t>(s), static_cast<std::uint64_t>(r)));
  }
}

Fields batch_fields() {
  return {{"pixels", DType::kFloat32, rows_per_sample(1), 1, FieldSource::kPixels},
          {"token_ids", DType::kInt32, text_rows(), 1, FieldSource::kTokenIds},
          {"position_ids", DType::kInt32, text_rows(), 1, FieldSource::kPositionIds},
          {"token_types", DType::kInt32, text_rows(), 1, FieldSource::kTokenTypes},
          {"text_offsets", DType::kInt32, {kSamples, 1, 1}, 1, FieldSource::kTextOffsets},
          {"text_row_keys", DType::kInt64, text_rows(), 1, FieldSource::kTextRowKeys},
          {"image_row_keys", DType::kInt64, rows_per_sample(1), 1, FieldSource::kImageRowKeys},
          {"sample_keys", DType::kInt64, rows_per_sample(1), 1, FieldSource::kSampleKeys},
          {"selected_rows", DType::kInt32, rows_of_stream(kSelected), 1, FieldSource::kMaskedRows},
          {"labels", DType::kInt32, text_rows(), 1, FieldSource::kMaskedLabels}};
}

Batch TestBatch::batch(const Fields& fields) const {
  Batch batch;
  batch.counts = counts_of(samples(), text_rows(), static_cast<std::int64_t>(selected.size()));
  for (std::size_t i = 0; i < fields.size(); ++i) {
    switch (fields[i].source) {
      case FieldSource::kPixels: batch.fields[i] = pixels.data(); break;
      case FieldSource::kTokenIds: batch.fields[i] = ids.data(); break;
      case FieldSource::kTokenTypes: batch.fields[i] = types.data(); break;
      case FieldSource::kPositionIds: batch.fields[i] = positions.data(); break;
      case FieldSource::kTextOffsets: batch.fields[i] = offsets.data(); break;
      case FieldSource::kTextRowKeys: batch.fields[i] = text_keys.data(); break;
      case FieldSource::kImageRowKeys: batch.fields[i] = image_keys.data(); break;
      case FieldSource::kSampleKeys: batch.fields[i] = sample_keys.data(); break;
      case FieldSource::kGenerator: break;
      case FieldSource::kMaskedRows: batch.fields[i] = selected.data(); break;
      case FieldSource::kMaskedLabels:
      case FieldSource::kMatchLabels:
      case FieldSource::kClassLabels: batch.fields[i] = labels.data(); break;
      case FieldSource::kMixedLabels:
      case FieldSource::kLabelValues:
      case FieldSource::kLabelShares:
      case FieldSource::kReadRows:
      case FieldSource::kReadOffsets:
      case FieldSource::kReadRowKeys:
      case FieldSource::kMaskedAmongRead:
      case FieldSource::kDecoderIds:
      case FieldSource::kLabelledRows:
      case FieldSource::kTokenLabels:
      case FieldSource::kLabelledWords: break;  // none here
    }
  }
  return batch;
}

Tensor GraphRun::parameter(const std::string& name, std::int64_t rows, std::int64_t cols, bool trained, bool decayed) {
  ParameterPiece piece;
  piece.name = name;
  piece.shape = {rows, cols};
  piece.elements = rows * cols;
  return graph_.parameter({name, rows, cols, trained, decayed, {piece}});
}

Tensor GraphRun::input(const std::string& name, Extent rows, std::int64_t cols) {
  inputs_.push_back(graph_.input(name, rows, cols));
  return inputs_.back();
}

Tensor GraphRun::source(const std::string& name, Extent rows, std::int64_t cols) {
  const Tensor x = input(name + ".input", rows, kSourceWidth);
  return linear(graph_, name, x, parameter(name + ".weight", cols, kSourceWidth), Tensor{});
}

void GraphRun::finish(const std::vector<Tensor>& outputs, const KernelTable& kernels) {
  std::vector<std::pair<Tensor, Tensor>> pairs;
  for (const Tensor output : outputs) {
    pairs.emplace_back(output,
                       input("cotangent" + std::to_string(pairs.size()), graph_[output].rows, graph_[output].cols));
  }
  if (!pairs.empty()) loss_ = cotangent_loss(graph_, pairs);
  derive_backward(graph_);
  seal(kernels);
}

void GraphRun::seal(const KernelTable& kernels, bool activations_in_gradients) {
  layout_ = lay_out_parameters(parameters_, gradient_order(graph_));
  const GradientSpace space = find_gradient_space(graph_, layout_);
  const WorkspacePlan workspace = plan_workspace(graph_, activations_in_gradients ? &space : nullptr);
  const auto bytes = [](std::int64_t floats) { return static_cast<std::size_t>(floats) * sizeof(float); };
  const MemoryPlan plan =
      make_memory_plan({{"trained", bytes(layout_.trained_elements)},
                        {"gradients", bytes(layout_.trained_elements)},
                        {"fixed", bytes(layout_.fixed_elements)},
                        {"workspace", workspace.bytes},
                        {"scratch", workspace.thread_scratch_bytes * static_cast<std::size_t>(thread_count_)}},
                       0);
  arena_ = std::make_unique<Arena>(plan, HugePages::kTransparent);
  memory_.trained_parameters = arena_->as<float>(plan["trained"]);
  memory_.gradients = arena_->as<float>(plan["gradients"]);
  memory_.fixed_parameters = arena_->as<float>(plan["fixed"]);
  memory_.workspace = arena_->at(plan["workspace"]);
  memory_.thread_scratch = arena_->at(plan["scratch"]);
  memory_.thread_scratch_bytes = workspace.thread_scratch_bytes;
  threads_ = std::make_unique<Threads>(thread_count_, false);
  products_ = std::make_unique<OwnProducts>(thread_count_, kernels.isa);
  tape_ = std::make_unique<Tape>(graph_, workspace, layout_, memory_, kernels, *products_);
  for (int p = 0; p < parameters_.size(); ++p) {
    const Parameter& parameter = parameters_[p];
    const auto [data, count] = memory_of(parameter.name, false);
    for (std::int64_t i = 0; i < count; ++i) {
      const double value = parameter.rows > 1 ? 1.2 / std::sqrt(static_cast<double>(parameter.cols)) * random_.normal()
                                              : 0.6 + 0.5 * random_.normal();
      data[i] = static_cast<float>(value);
    }
  }
  // The content of a buffer before its first write must not matter.
  std::fill_n(memory_.gradients, layout_.trained_elements, 1e30f);
  for (const Tensor tensor : inputs_) {
    input_values_.emplace_back(static_cast<std::size_t>(graph_.max_rows(tensor) * graph_[tensor].cols));
    random_.fill_normal(input_values_.back().data(), input_values_.back().size());
  }
}

void GraphRun::replay(const Batch& batch, float loss_weight, bool add_to_gradients, std::uint32_t dropout_step,
                      float second_weight) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (at(inputs_[i]) != nullptr) std::copy(input_values_[i].begin(), input_values_[i].end(), at(inputs_[i]));
  }
  Replay replay;
  replay.batch = batch;
  replay.loss_weights[0] = loss_weight;
  replay.loss_weights[1] = second_weight;
  replay.add_to_gradients = add_to_gradients;
  replay.dropout_key[0] = 11;
  replay.dropout_key[1] = dropout_step;
  replay.peers = peers_;
  tape_->replay(*threads_, replay);
}

std::pair<float*, std::int64_t> GraphRun::memory_of(const std::string& name, bool gradient) {
  for (int p = 0; p < parameters_.size(); ++p) {
    if (parameters_[p].name != name) continue;
    const ParameterLayout::Place& place = layout_.places[static_cast<std::size_t>(p)];
    float* const base = gradient        ? memory_.gradients
                        : place.trained ? memory_.trained_parameters
                                        : memory_.fixed_parameters;
    return {base + place.offset, parameters_[p].elements()};
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (graph_[inputs_[i]].name == name)
      return {input_values_[i].data(), static_cast<std::int64_t>(input_values_[i].size())};
  }
  BASCULE_CHECK(false);  // a parameter or an input of that name
  return {};
}

std::vector<float> GraphRun::values(const std::string& name) {
  const auto [data, count] = memory_of(name, false);
  return {data, data + count};
}

void GraphRun::set_values(const std::string& name, const std::vector<float>& values) {
  const auto [data, count] = memory_of(name, false);
  BASCULE_CHECK(count == static_cast<std::int64_t>(values.size()));
  std::copy(values.begin(), values.end(), data);
}

std::vector<float> GraphRun::gradient(const std::string& name) {
  const auto [data, count] = memory_of(name, true);
  return {data, data + count};
}

std::vector<float> GraphRun::all_gradients() const {
  return {memory_.gradients, memory_.gradients + layout_.trained_elements};
}

}  // namespace bascule::test
