// SPDX-License-Identifier: Apache-2.0
#include "src/models/recorder.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"

namespace bascule {

ParameterPiece piece(std::string name, std::vector<std::int64_t> shape, std::int64_t first, InitialValue initial) {
  ParameterPiece result;
  result.name = std::move(name);
  result.elements = 1;
  for (const std::int64_t n : shape) result.elements *= n;
  result.shape = std::move(shape);
  result.first_element = first;
  result.initial = initial;
  return result;
}

namespace {

InitialValue normal(double standard_deviation) { return {0.0f, static_cast<float>(standard_deviation)}; }

}  // namespace

DropoutPlace Recorder::drop(float probability) {
  // Numbered also where nothing is dropped, so that a place keeps its number whatever the others' probabilities are.
  const std::uint32_t operation = dropout_places++;
  return {dropout ? probability : 0.0f, operation};
}

Tensor Recorder::add(Parameter parameter) {
  const std::string& name = parameter.pieces.front().name;
  parameter.trained =
      std::none_of(frozen.begin(), frozen.end(), [&](const std::string& start) { return name.rfind(start, 0) == 0; });
  return graph.parameter(std::move(parameter));
}

Tensor Recorder::weight(const std::string& name, std::int64_t out, std::int64_t in, double standard_deviation) {
  Parameter p{name, out, in, true, true, {piece(name, {out, in}, 0, normal(standard_deviation))}};
  return add(std::move(p));
}

Tensor Recorder::bias(const std::string& name, std::int64_t out) { return row(name, out, {}, false); }

Tensor Recorder::row(const std::string& name, std::int64_t cols, InitialValue initial, bool decayed) {
  Parameter p{name, 1, cols, true, decayed, {piece(name, {cols}, 0, initial)}};
  return add(std::move(p));
}

Tensor Recorder::scalar(const std::string& name, float value, bool decayed) {
  Parameter p{name, 1, 1, true, decayed, {piece(name, {}, 0, {value, 0.0f})}};
  return add(std::move(p));
}

Tensor Recorder::stacked(const std::string& name, const std::vector<std::string>& pieces, std::int64_t rows_each,
                         std::int64_t cols, double standard_deviation, bool is_bias) {
  if (!is_bias) {
    std::vector<WeightPiece> weights;
    weights.reserve(pieces.size());
    for (const std::string& own : pieces) weights.push_back({own, standard_deviation});
    return stacked_weights(name, weights, rows_each, cols);
  }
  Parameter p;
  p.name = name;
  p.decayed = false;
  p.rows = 1;
  for (const std::string& own : pieces) {
    p.pieces.push_back(piece(own, {rows_each}, p.cols, {}));
    p.cols += rows_each;
  }
  return add(std::move(p));
}

Tensor Recorder::stacked_weights(const std::string& name, const std::vector<WeightPiece>& pieces,
                                 std::int64_t rows_each, std::int64_t cols) {
  Parameter p;
  p.name = name;
  p.cols = cols;
  for (const WeightPiece& own : pieces) {
    p.pieces.push_back(piece(own.name, {rows_each, cols}, p.elements(), normal(own.standard_deviation)));
    p.rows += rows_each;
  }
  return add(std::move(p));
}

Tensor Recorder::table(const std::string& name, std::int64_t rows, std::int64_t cols, double standard_deviation,
                       std::int64_t zero_row, bool decayed) {
  InitialValue initial = normal(standard_deviation);
  if (zero_row >= 0) {
    initial.zero_first = zero_row * cols;
    initial.zero_end = initial.zero_first + cols;
  }
  return add({name, rows, cols, true, decayed, {piece(name, {rows, cols}, 0, initial)}});
}

Tensor Recorder::shaped(const std::string& name, std::vector<std::int64_t> shape, std::int64_t rows,
                        double standard_deviation, std::vector<int> order) {
  ParameterPiece whole = piece(name, std::move(shape), 0, normal(standard_deviation));
  whole.order = std::move(order);
  return add({name, rows, whole.elements / rows, true, true, {whole}});
}

Tensor Recorder::token_rows(const std::vector<std::string>& names, std::int64_t cols, double standard_deviation) {
  Parameter p{names.front(), 0, cols, true, true, {}};
  for (const std::string& name : names) {
    p.pieces.push_back(piece(name, {1, 1, cols}, p.elements(), normal(standard_deviation)));
    ++p.rows;
  }
  return add(std::move(p));
}

Tensor dense(Recorder& r, const std::string& name, Tensor x, std::int64_t out) {
  const std::int64_t in = r.graph[x].cols;
  const Tensor weight = r.weight(name + ".weight", out, in, r.deviation);
  return linear(r.graph, name, x, weight, r.bias(name + ".bias", out));
}

Tensor projected(Recorder& r, const std::string& name, Tensor x, const std::vector<std::string>& pieces,
                 std::int64_t rows_each, bool bias) {
  std::vector<std::string> weights, biases;
  for (const std::string& own : pieces) {
    weights.push_back(own + ".weight");
    biases.push_back(own + ".bias");
  }
  const Tensor weight = r.stacked(name + ".weight", weights, rows_each, r.graph[x].cols, r.deviation, false);
  return linear(r.graph, name, x, weight, bias ? r.stacked(name + ".bias", biases, rows_each, 1, 0.0, true) : Tensor{});
}

Tensor norm(Recorder& r, const std::string& name, Tensor x, float epsilon) {
  const std::int64_t cols = r.graph[x].cols;
  const Tensor weight = r.row(name + ".weight", cols, {1.0f, 0.0f}, false);
  return layer_norm(r.graph, name, x, weight, r.bias(name + ".bias", cols), epsilon);
}

Normalized add_norm(Recorder& r, const std::string& name, Tensor x, Tensor h, float epsilon, DropoutPlace place,
                    Tensor row_keys) {
  const std::int64_t cols = r.graph[x].cols;
  const Tensor weight = r.row(name + ".weight", cols, {1.0f, 0.0f}, false);
  return add_layer_norm(r.graph, name, x, h, weight, r.bias(name + ".bias", cols), epsilon, place, row_keys);
}

Tensor projected_attention(Recorder& r, const std::string& name, const std::string& prefix, const LayerShape& shape,
                           RowStream queries, RowStream keys, bool bias, const ProjectionNames& names) {
  const std::int64_t width = shape.width;
  const std::string q = prefix + names.query, k = prefix + names.key, v = prefix + names.value;
  AttentionOperand query, key, value;
  if (queries.x == keys.x) {
    const Tensor all = projected(r, prefix + "query_key_value", queries.x, {q, k, v}, width, bias);
    query = {all, 0};
    key = {all, width};
    value = {all, 2 * width};
  } else {
    query = {projected(r, prefix + "query", queries.x, {q}, width, bias), 0};
    const Tensor both = projected(r, prefix + "key_value", keys.x, {k, v}, width, bias);
    key = {both, 0};
    value = {both, width};
  }
  return attention(r.graph, name, query, queries.rows, key, value, keys.rows, shape.heads, width / shape.heads,
                   r.drop(shape.attention_dropout), r.keys("sample_keys"));
}

Tensor attention_block(Recorder& r, const std::string& name, const LayerShape& shape, RowStream queries,
                       RowStream keys) {
  const Tensor context = projected_attention(r, name, name + ".self.", shape, queries, keys, true);
  const Tensor h = dense(r, name + ".output.dense", context, shape.width);
  return add_norm(r, name + ".output.LayerNorm", queries.x, h, shape.epsilon, r.drop(shape.hidden_dropout),
                  queries.rows.row_keys)
      .y;
}

Tensor feed_forward_block(Recorder& r, const std::string& name, const LayerShape& shape, RowStream x) {
  const Tensor up = dense(r, name + ".intermediate.dense", x.x, shape.intermediate);
  const Tensor h = dense(r, name + ".output.dense",
                         activation(r.graph, name + ".intermediate.act", up, shape.activation), shape.width);
  return add_norm(r, name + ".output.LayerNorm", x.x, h, shape.epsilon, r.drop(shape.hidden_dropout), x.rows.row_keys)
      .y;
}

bool hold_own_decoder(const ModelSource& source, const std::string& decoder, const FileNames& names) {
  if (!source.has_weights || !source.has_weights(decoder)) return false;
  return !source.are_equal || !source.are_equal(decoder, names.table, names);
}

TiedDecoder::TiedDecoder(bool says_tied, const ModelSource& source, const std::string& decoder, const FileNames& names)
    : says_tied_(says_tied), is_tied_(says_tied && !hold_own_decoder(source, decoder, names)) {}

void TiedDecoder::complete_config(Json* config) const {
  if (is_own()) (*config)["tie_word_embeddings"] = false;
}

std::vector<std::string> TiedDecoder::notes() const {
  if (!is_own()) return {};
  return {
      "the folder's decoder differs from its word table: both are trained, and config.json will say "
      "tie_word_embeddings = false"};
}

Tensor Recording::output(const std::string& name) const {
  const auto found = std::find_if(outputs.begin(), outputs.end(), [&](const auto& one) { return one.name == name; });
  BASCULE_CHECK(found != outputs.end());
  return found->tensor;
}

bool serves(const Model& model, Use use) {
  const std::vector<Use> uses = model.uses();
  return std::find(uses.begin(), uses.end(), use) != uses.end();
}

}  // namespace bascule
