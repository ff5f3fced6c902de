// SPDX-License-Identifier: Apache-2.0
// The layers that BridgeTower is composed of, and how they name their parameters. Each function adds its operations to
// the graph; equations: Transformers' modeling_bridgetower.py, class by class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/graph/operations.h"
#include "src/models/bridgetower_batch.h"
#include "src/models/bridgetower_config.h"

namespace bascule {

struct Freeze {
  bool vision_model = false, text_model = false;
};

// The state that the layers of one recording share.
struct Recorder {
  Graph& graph;
  const BridgeTowerConfig& config;
  Freeze freeze;
  std::string prefix;  // "bridgetower." in the classes with a head, "" in the bare model
  bool dropout = false;
  std::uint32_t dropout_places = 0;  // numbered in the order of recording

  // A place where the model drops elements with this probability; none in evaluation.
  DropoutPlace drop(float probability);
  // The rows of packed text, of pictures with so many rows each, and of one row a sample.
  SampleRows text_rows() const {
    return {rows_of_stream(kTextTokens), graph.field("text_offsets"), keys("text_row_keys")};
  }
  SampleRows image_rows(std::int64_t rows) const { return {rows_per_sample(rows), {}, keys("image_row_keys")}; }
  SampleRows first_rows() const { return {rows_per_sample(1), {}, keys("sample_keys")}; }
  Tensor keys(const char* field) const { return dropout ? graph.field(field) : Tensor{}; }

  Tensor weight(const std::string& name, std::int64_t out, std::int64_t in, double standard_deviation);
  Tensor bias(const std::string& name, std::int64_t out);
  Tensor row(const std::string& name, std::int64_t cols, InitialValue initial, bool decayed);
  Tensor scalar(const std::string& name, float value, bool decayed);
  // Tensors of the checkpoint laid end to end as one matrix (or bias) of ours.
  Tensor stacked(const std::string& name, const std::vector<std::string>& pieces, std::int64_t rows_each,
                 std::int64_t cols, double standard_deviation, bool is_bias);
  Tensor table(const std::string& name, std::int64_t rows, std::int64_t cols, double standard_deviation);
  double linear_deviation() const { return 0.05 * config.initializer_factor; }

 private:
  Tensor add(Parameter parameter);
};

// y = x W^T + b with name.weight (out, in) and name.bias (out).
Tensor dense(Recorder& r, const std::string& name, Tensor x, std::int64_t out);
Tensor norm(Recorder& r, const std::string& name, Tensor x, float epsilon);
Normalized add_norm(Recorder& r, const std::string& name, Tensor x, Tensor h, float epsilon);
// With dropout of h, whose rows have these keys.
Normalized add_norm(Recorder& r, const std::string& name, Tensor x, Tensor h, float epsilon, DropoutPlace place,
                    Tensor row_keys);

// One stream of rows.
struct RowStream {
  Tensor x;
  SampleRows rows;
};

// BridgeTowerAttention: output.LayerNorm(queries + dropout(output.dense(attention))). `queries` are rows of `own` (all,
// or each sample's first); `keys` are what they look at: the same stream, or the other one.
Tensor attention_block(Recorder& r, const std::string& name, RowStream queries, RowStream keys);

// output.LayerNorm(x + dropout(output.dense(act(intermediate.dense(x)))))
Tensor feed_forward_block(Recorder& r, const std::string& name, RowStream x);

// The text tower's embeddings and its layers (post-norm).
Tensor text_embeddings(Recorder& r);
Tensor text_layer(Recorder& r, std::int64_t i, Tensor x);

// The vision tower (pre-norm): z is the raw stream, `normed` is what the next block reads, ln_1 of that block.
struct VisionState {
  Tensor z, normed;
};
// Pictures of height x width; another size than the model's resizes the position table.
VisionState vision_embeddings(Recorder& r, std::int64_t height, std::int64_t width);
VisionState vision_block(Recorder& r, std::int64_t i, VisionState state, const SampleRows& rows);
std::string vision_name(const Recorder& r, const std::string& name);

// One cross-modal layer of one stream ("text" or "image"). first_only: rows of x are each sample's first row.
Tensor cross_modal_layer(Recorder& r, const std::string& modality, std::int64_t j, RowStream own, RowStream other,
                         bool first_only);

}  // namespace bascule
