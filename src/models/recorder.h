// SPDX-License-Identifier: Apache-2.0
// Recording a model, with the layers that all families have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/graph/operations.h"
#include "src/models/model.h"

namespace bascule {

// Recording a model: the state that its layers share, how they name their parameters, and the layers that every family
// has. Each function adds its operations to the graph.

struct Recorder {
  Graph& graph;
  std::vector<std::string> frozen;  // what the names of parameters that are not trained begin with
  double deviation = 0.02;          // standard deviation of fresh weights of dense()
  bool dropout = false;
  std::uint32_t dropout_places = 0;  // numbered in the order of recording

  // A place where the model drops elements with this probability; none in evaluation.
  DropoutPlace drop(float probability);
  // The field of keys of random numbers; none where nothing is dropped.
  Tensor keys(const char* field) const { return dropout ? graph.field(field) : Tensor{}; }
  // Pictures with so many rows each; one row a sample.
  SampleRows image_rows(std::int64_t rows) const { return {rows_per_sample(rows), {}, keys("image_row_keys")}; }
  SampleRows first_rows() const { return {rows_per_sample(1), {}, keys("sample_keys")}; }

  Tensor weight(const std::string& name, std::int64_t out, std::int64_t in, double standard_deviation);
  Tensor bias(const std::string& name, std::int64_t out);
  Tensor row(const std::string& name, std::int64_t cols, InitialValue initial, bool decayed);
  Tensor scalar(const std::string& name, float value, bool decayed);
  // Tensors of the checkpoint laid end to end as one matrix (or bias) of ours.
  Tensor stacked(const std::string& name, const std::vector<std::string>& pieces, std::int64_t rows_each,
                 std::int64_t cols, double standard_deviation, bool is_bias);
  // Weights laid end to end, each with a standard deviation of its own.
  struct WeightPiece {
    std::string name;
    double standard_deviation;
  };
  Tensor stacked_weights(const std::string& name, const std::vector<WeightPiece>& pieces, std::int64_t rows_each,
                         std::int64_t cols);
  // zero_row: a row whose fresh value is zero; -1: none.
  Tensor table(const std::string& name, std::int64_t rows, std::int64_t cols, double standard_deviation,
               std::int64_t zero_row = -1, bool decayed = true);
  // A tensor of any shape as a matrix of so many rows: the kernel of a convolution of patches, a table that begins with
  // a dimension of one. order: of its dimensions in ours (ParameterPiece); empty: the file's.
  Tensor shaped(const std::string& name, std::vector<std::int64_t> shape, std::int64_t rows, double standard_deviation,
                std::vector<int> order = {});
  // Tensors of (1, 1, cols) laid end to end: rows that all samples share.
  Tensor token_rows(const std::vector<std::string>& names, std::int64_t cols, double standard_deviation);

 private:
  Tensor add(Parameter parameter);
};

// A tensor of a checkpoint, whose elements begin at `first` of its parameter.
ParameterPiece piece(std::string name, std::vector<std::int64_t> shape, std::int64_t first, InitialValue initial);

// y = x W^T + b with name.weight (out, in) and name.bias (out).
Tensor dense(Recorder& r, const std::string& name, Tensor x, std::int64_t out);
// The same as one product where there are several weights of (rows_each, in); pieces: their names without ".weight"
// and ".bias".
Tensor projected(Recorder& r, const std::string& name, Tensor x, const std::vector<std::string>& pieces,
                 std::int64_t rows_each, bool bias = false);
Tensor norm(Recorder& r, const std::string& name, Tensor x, float epsilon);
// row_keys: of h's rows; read where something of it is dropped.
Normalized add_norm(Recorder& r, const std::string& name, Tensor x, Tensor h, float epsilon, DropoutPlace place = {},
                    Tensor row_keys = {});

// One stream of rows.
struct RowStream {
  Tensor x;
  SampleRows rows;
};

// A transformer layer's sizes, activation and rates of dropout.
struct LayerShape {
  std::int64_t width = 0, heads = 0, intermediate = 0;
  Activation activation = Activation::kGelu;
  float epsilon = 0.0f, hidden_dropout = 0.0f, attention_dropout = 0.0f;
};

// Names of the projections of an attention behind a prefix.
struct ProjectionNames {
  const char *query = "query", *key = "key", *value = "value";
};

// Attention of `queries` to `keys`, without the projection of its result. Projections have .weight and, unless `bias`
// is false, .bias. Projections of the same rows are one product.
Tensor projected_attention(Recorder& r, const std::string& name, const std::string& prefix, const LayerShape& shape,
                           RowStream queries, RowStream keys, bool bias, const ProjectionNames& names = {});

// Layers with a norm behind each part, as BERT has them. `queries` are rows of `keys` (all, or each sample's first), or
// of another stream.
//   output.LayerNorm(queries + dropout(output.dense(attention)))
Tensor attention_block(Recorder& r, const std::string& name, const LayerShape& shape, RowStream queries,
                       RowStream keys);
//   output.LayerNorm(x + dropout(output.dense(act(intermediate.dense(x)))))
Tensor feed_forward_block(Recorder& r, const std::string& name, const LayerShape& shape, RowStream x);

// A decoder of words that config.json ties to the word table: it is that table, unless the weights hold another one.
// Before the seal.

// Whether the weights hold a decoder that is no copy of the word table, which is names.table.
bool hold_own_decoder(const ModelSource& source, const std::string& decoder, const FileNames& names);

class TiedDecoder {
 public:
  // says_tied: config.json does. decoder: its full name.
  TiedDecoder(bool says_tied, const ModelSource& source, const std::string& decoder, const FileNames& names);

  bool is_tied() const { return is_tied_; }
  // It is not the word table although config.json says so.
  bool is_own() const { return says_tied_ && !is_tied_; }

  // As the functions of Model with these names. What is saved says so of a decoder of its own: Transformers 4 would
  // replace it by the word table.
  void complete_config(Json* config) const;
  std::vector<std::string> notes() const;

 private:
  bool says_tied_, is_tied_;
};

}  // namespace bascule
