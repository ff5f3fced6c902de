// SPDX-License-Identifier: Apache-2.0
#include "src/models/t5_layers.h"

#include <algorithm>
#include <cmath>

#include "src/graph/operations.h"
#include "src/models/config_values.h"

namespace bascule {
namespace {

// "relu", "gated-gelu": Transformers' T5Config takes the part behind the last hyphen for the activation. Where a file
// has keys of their own for the activation and the gate, as save_pretrained() writes them, those decide.
void read_feed_forward(const Json& json, const std::string& path, T5Config* config) {
  constexpr char kKey[] = "feed_forward_proj", kGated[] = "gated-", kActivation[] = "dense_act_fn";
  const std::string value = get_string(json, kKey, path, "relu");
  config->is_gated = value.rfind(kGated, 0) == 0;
  std::string name = config->is_gated ? value.substr(sizeof kGated - 1) : value;
  if (config->is_gated && name == "gelu") name = "gelu_new";  // the class's own exception
  config->is_gated = get_bool(json, "is_gated_act", path, config->is_gated);
  if (find_member(json, kActivation, path) == nullptr) {
    config->activation = activation_of_name(name, kKey, value, path);
  } else {
    name = get_string(json, kActivation, path);
    config->activation = activation_of_name(name, kActivation, name, path);
  }
}

// Every distance has a bucket: half of them are for exact distances, and the rest reach beyond these.
void check_buckets(const T5Config& config, const std::string& path) {
  const std::int64_t buckets = config.relative_attention_num_buckets, exact = buckets / 2;
  if (buckets < 4 || buckets > kMaxRelativeBuckets)
    refuse_config(path, "relative_attention_num_buckets = " + std::to_string(buckets) + " is out of range",
                  "4 to " + std::to_string(kMaxRelativeBuckets) + " is allowed");
  if (config.relative_attention_max_distance <= exact)
    refuse_config(path,
                  "relative_attention_max_distance = " + std::to_string(config.relative_attention_max_distance) +
                      " must be greater than half of relative_attention_num_buckets = " + std::to_string(buckets));
}

void check_ids(const Json& json, const std::string& path, T5Config* config) {
  config->pad_token_id = get_int(json, "pad_token_id", path, config->pad_token_id);
  check_padding_token(config->pad_token_id, config->vocab_size, path);
  constexpr char kStart[] = "decoder_start_token_id";
  if (find_member(json, kStart, path) == nullptr)
    refuse_config(path, std::string("has no ") + kStart, "T5's is its pad_token_id, 0");
  config->decoder_start_token_id = get_int(json, kStart, path);
  if (config->decoder_start_token_id < 0 || config->decoder_start_token_id >= config->vocab_size)
    refuse_config(path, std::string(kStart) + " = " + std::to_string(config->decoder_start_token_id) +
                            " is outside the vocabulary");
}

// Folders of T5's encoder alone, or of another head, have T5's model_type.
void check_class(const Json& json, const std::string& path) {
  constexpr char kKey[] = "architectures", kClass[] = "T5ForConditionalGeneration";
  const Json* const member = find_member(json, kKey, path);
  if (member == nullptr || member->is_null()) return;
  const std::vector<std::string> classes = get_strings(json, kKey, path);
  const char* const kKnown[] = {kClass, "T5WithLMHeadModel", "T5Model"};
  const bool is_known = std::any_of(classes.begin(), classes.end(), [&](const std::string& name) {
    return std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown);
  });
  if (!classes.empty() && !is_known)
    refuse_config(path, "is of a " + classes.front() + ", which is not supported",
                  std::string("only ") + kClass + " is");
}

}  // namespace

T5Config read_t5_config(const std::string& path) {
  const Json json = read_json_file(path);
  check_class(json, path);
  T5Config config;
  read_config_extents(json, path,
                      {{"vocab_size", &config.vocab_size},
                       {"d_model", &config.d_model},
                       {"d_kv", &config.d_kv},
                       {"d_ff", &config.d_ff},
                       {"num_layers", &config.num_layers},
                       {"num_heads", &config.num_heads},
                       {"relative_attention_num_buckets", &config.relative_attention_num_buckets},
                       {"relative_attention_max_distance", &config.relative_attention_max_distance}});
  const Json* const layers = find_member(json, "num_decoder_layers", path);
  const bool has_own_depth = layers != nullptr && !layers->is_null();
  config.num_decoder_layers =
      has_own_depth ? config_extent(json, "num_decoder_layers", path, config.num_layers) : config.num_layers;
  check_buckets(config, path);
  check_ids(json, path, &config);
  read_feed_forward(json, path, &config);
  config.dropout_rate = config_probability(json, "dropout_rate", path, 0.1);
  config.layer_norm_epsilon = config_epsilon(json, path, 1e-6, "layer_norm_epsilon");
  config.initializer_factor = config_factor(json, "initializer_factor", path, config.initializer_factor);
  config.tie_word_embeddings = get_bool(json, "tie_word_embeddings", path, true);
  // Transformers 5 writes this key. Without it a head that the file ties is a scaled one.
  config.scales_outputs = get_bool(json, "scale_decoder_outputs", path, config.tie_word_embeddings);
  return config;
}

namespace {

constexpr char kEncoder[] = "encoder", kDecoder[] = "decoder";

// A block's two streams (norm before each part): x is the raw one, `normed` what the next part reads.
struct T5State {
  Tensor x, normed;
};

std::string block_name(const T5Stack& stack, std::int64_t i) { return stack.name + ".block." + std::to_string(i); }

// The norm that reads the raw stream behind block i - 1.
std::string next_norm(const T5Stack& stack, std::int64_t i) {
  return i < stack.depth ? block_name(stack, i) + ".layer.0.layer_norm" : stack.name + ".final_layer_norm";
}

Tensor projection(T5Recorder& r, const std::string& name, Tensor x, const std::vector<Recorder::WeightPiece>& pieces,
                  std::int64_t rows_each) {
  return linear(r.graph, name, x, r.stacked_weights(name + ".weight", pieces, rows_each, r.graph[x].cols), Tensor{});
}

// The weights of one attention's projections, as stacked_weights() takes them.
struct Projections {
  Recorder::WeightPiece q, k, v;
};
Projections projections_of(const T5Recorder& r, const std::string& name) {
  const T5Config& config = r.config;
  return {{name + ".q.weight", r.fan_in(config.d_model * config.d_kv)},
          {name + ".k.weight", r.fan_in(config.d_model)},
          {name + ".v.weight", r.fan_in(config.d_model)}};
}

Tensor project_all(T5Recorder& r, const std::string& name, Tensor x) {
  const Projections of = projections_of(r, name);
  return projection(r, name + ".qkv", x, {of.q, of.k, of.v}, r.config.inner_width());
}
Tensor project_queries(T5Recorder& r, const std::string& name, Tensor x) {
  return projection(r, name + ".q", x, {projections_of(r, name).q}, r.config.inner_width());
}
Tensor project_result(T5Recorder& r, const std::string& name, Tensor context) {
  return projection(r, name + ".o", context, {{name + ".o.weight", r.fan_in(r.config.inner_width())}},
                    r.config.d_model);
}

// The stream behind a part whose result is h, and the next part's norm of it.
T5State add_part(T5Recorder& r, const T5Stack& stack, Tensor x, Tensor h, const std::string& norm_name) {
  const Normalized next = add_rms_norm(r.graph, norm_name, x, h, r.norm_weight(norm_name), r.config.layer_norm_epsilon,
                                       r.next_dropout(), stack.rows.row_keys);
  return {next.sum, next.y};
}

T5Stack record_stack(T5Recorder& r, const char* name, std::int64_t depth, bool is_decoder, const SampleRows& rows,
                     std::int64_t span) {
  T5Stack stack{name, depth, is_decoder, rows, {}};
  const std::string table = block_name(stack, 0) + ".layer.0.SelfAttention.relative_attention_bias";
  r.graph.set_scope(table);
  const T5Config& config = r.config;
  const Tensor weight = r.table(table + ".weight", config.relative_attention_num_buckets, config.num_heads,
                                r.fan_in(config.d_model), -1, false);
  stack.self_attention.scale = 1.0f;  // the fresh weights of the queries have it instead
  stack.self_attention.causal = is_decoder;
  stack.self_attention.bias = relative_position_bias(
      r.graph, table, weight,
      {config.relative_attention_num_buckets, config.relative_attention_max_distance, !is_decoder},
      std::max<std::int64_t>(1, span));
  return stack;
}

T5State record_embeddings(T5Recorder& r, const T5Stack& stack, const char* ids) {
  r.graph.set_scope(stack.name + ".embed_tokens");
  const Tensor e =
      text_embedding(r.graph, stack.name + ".embed_tokens", {r.words(), {}, {}}, {r.graph.field(ids), {}, {}}, {});
  const Tensor x = dropout(r.graph, stack.name + ".dropout", e, r.next_dropout(), stack.rows.row_keys);
  const std::string norm = next_norm(stack, 0);
  return {x, rms_norm(r.graph, norm, x, r.norm_weight(norm), r.config.layer_norm_epsilon)};
}

// Without the projection of its result.
Tensor record_context(T5Recorder& r, const std::string& name, Tensor queries, const SampleRows& query_rows, Tensor keys,
                      const SampleRows& key_rows, const AttentionOptions& options) {
  const T5Config& config = r.config;
  const std::int64_t inner = config.inner_width();
  AttentionOperand query, key, value;
  if (queries == keys) {
    const Tensor all = project_all(r, name, queries);
    query = {all, 0};
    key = {all, inner};
    value = {all, 2 * inner};
  } else {
    query = {project_queries(r, name, queries), 0};
    const Projections of = projections_of(r, name);
    const Tensor both = projection(r, name + ".kv", keys, {of.k, of.v}, inner);
    key = {both, 0};
    value = {both, inner};
  }
  return attention(r.graph, name, query, query_rows, key, value, key_rows, config.num_heads, config.d_kv,
                   r.next_dropout(), r.keys("sample_keys"), options);
}

AttentionOptions cross_attention() {
  AttentionOptions options;
  options.scale = 1.0f;
  return options;
}

Tensor record_feed_forward(T5Recorder& r, const std::string& name, Tensor x, const SampleRows& rows) {
  const T5Config& config = r.config;
  const double deviation = r.fan_in(config.d_model);
  Tensor h;
  if (config.is_gated) {
    const Tensor both = projection(
        r, name + ".wi", x, {{name + ".wi_0.weight", deviation}, {name + ".wi_1.weight", deviation}}, config.d_ff);
    h = gate(r.graph, name + ".gate", both, config.activation, r.next_dropout(), rows.row_keys);
  } else {
    const Tensor up = projection(r, name + ".wi", x, {{name + ".wi.weight", deviation}}, config.d_ff);
    h = dropout(r.graph, name + ".dropout", activation(r.graph, name + ".act", up, config.activation), r.next_dropout(),
                rows.row_keys);
  }
  return projection(r, name + ".wo", h, {{name + ".wo.weight", r.fan_in(config.d_ff)}}, config.d_model);
}

// The cache of one decoder layer.
Tensor cache_of(T5Recorder& r, const std::string& attention, std::int64_t places) {
  return r.graph.state({attention + ".cache", r.config.num_heads * places, 2 * r.config.d_kv});
}
Tensor source_cache(T5Recorder& r, const DecodingShape& shape, const std::string& name) {
  return cache_of(r, name + "1.EncDecAttention", shape.source_rows);
}
Tensor own_cache(T5Recorder& r, const DecodingShape& shape, const std::string& name) {
  return cache_of(r, name + "0.SelfAttention", shape.slots * shape.max_length);
}

// The contexts of a decoder's or an encoder's block over whole texts. encoded: the encoder's result, which a decoder's
// block reads; none in an encoder.
struct WholeTexts {
  const RowStream& encoded;

  Tensor self(T5Recorder& r, const T5Stack& stack, const std::string& name, Tensor x) const {
    return record_context(r, name + "0.SelfAttention", x, stack.rows, x, stack.rows, stack.self_attention);
  }
  Tensor cross(T5Recorder& r, const T5Stack& stack, const std::string& name, Tensor x) const {
    return record_context(r, name + "1.EncDecAttention", x, stack.rows, encoded.x, encoded.rows, cross_attention());
  }
};

// Those of a decoder's block over the next token of each live row.
struct NextTokens {
  const DecodingShape& shape;

  Tensor self(T5Recorder& r, const T5Stack& stack, const std::string& name, Tensor x) const {
    const std::int64_t inner = r.config.inner_width();
    const Tensor all = project_all(r, name + "0.SelfAttention", x), cache = own_cache(r, shape, name);
    store_keys(r.graph, cache, all, inner, 2 * inner, r.config.num_heads, r.graph.field(kNextPlaces));
    return cached_attention(r.graph, name + "0.SelfAttention", {all, 0}, {rows_of_stream(kLiveRows), {}, {}},
                            {cache, r.graph.field(kPastPlaces), r.graph.field(kPastCounts)}, r.config.num_heads,
                            r.config.d_kv, stack.self_attention);
  }
  Tensor cross(T5Recorder& r, const T5Stack& stack, const std::string& name, Tensor x) const {
    const Tensor query = project_queries(r, name + "1.EncDecAttention", x);
    return cached_attention(r.graph, name + "1.EncDecAttention", {query, 0}, stack.rows,
                            {source_cache(r, shape, name), r.graph.field(kSourcePlaces), r.graph.field(kSourceCounts)},
                            r.config.num_heads, r.config.d_kv, cross_attention());
  }
};

template <typename Contexts>
T5State record_block(T5Recorder& r, const T5Stack& stack, std::int64_t i, T5State state, const Contexts& contexts) {
  const std::string name = block_name(stack, i) + ".layer.";
  r.graph.set_scope(block_name(stack, i));
  const Tensor a = contexts.self(r, stack, name, state.normed);
  state = add_part(r, stack, state.x, project_result(r, name + "0.SelfAttention", a), name + "1.layer_norm");
  if (stack.is_decoder) {
    const Tensor c = contexts.cross(r, stack, name, state.normed);
    state = add_part(r, stack, state.x, project_result(r, name + "1.EncDecAttention", c), name + "2.layer_norm");
  }
  const Tensor f =
      record_feed_forward(r, name + (stack.is_decoder ? "2" : "1") + ".DenseReluDense", state.normed, stack.rows);
  return add_part(r, stack, state.x, f, next_norm(stack, i + 1));
}

template <typename Contexts>
Tensor record_blocks(T5Recorder& r, const T5Stack& stack, const char* ids, const Contexts& contexts) {
  T5State state = record_embeddings(r, stack, ids);
  for (std::int64_t i = 0; i < stack.depth; ++i) state = record_block(r, stack, i, state, contexts);
  r.graph.set_scope(stack.name + ".dropout");
  return dropout(r.graph, stack.name + ".final_dropout", state.normed, r.next_dropout(), stack.rows.row_keys);
}

}  // namespace

T5Recorder::T5Recorder(Graph& target, const T5Config& model_config, const RecordOptions& options)
    : Recorder{target, {}, 0.0, options.dropout}, config(model_config) {
  for (const std::string& part : options.frozen) frozen.push_back(part + ".");
}

double T5Recorder::fan_in(std::int64_t columns) const {
  return config.initializer_factor / std::sqrt(static_cast<double>(columns));
}

Tensor T5Recorder::words() { return table(kT5Words, config.vocab_size, config.d_model, config.initializer_factor); }

Tensor T5Recorder::norm_weight(const std::string& name) {
  return row(name + ".weight", config.d_model, {static_cast<float>(config.initializer_factor), 0.0f}, false);
}

T5Stack record_t5_encoder(T5Recorder& r, const SampleRows& rows, std::int64_t span) {
  return record_stack(r, kEncoder, r.config.num_layers, false, rows, span);
}
T5Stack record_t5_decoder(T5Recorder& r, const SampleRows& rows, std::int64_t span) {
  return record_stack(r, kDecoder, r.config.num_decoder_layers, true, rows, span);
}

Tensor record_t5_blocks(T5Recorder& r, const T5Stack& stack, const char* ids, const RowStream& encoded) {
  return record_blocks(r, stack, ids, WholeTexts{encoded});
}

void record_t5_source_cache(T5Recorder& r, const DecodingShape& shape, Tensor encoded) {
  const std::int64_t inner = r.config.inner_width();
  for (std::int64_t i = 0; i < r.config.num_decoder_layers; ++i) {
    const std::string block = std::string(kDecoder) + ".block." + std::to_string(i), name = block + ".layer.";
    r.graph.set_scope(block);
    const Projections of = projections_of(r, name + "1.EncDecAttention");
    const Tensor both = projection(r, name + "1.EncDecAttention.kv", encoded, {of.k, of.v}, inner);
    store_keys(r.graph, source_cache(r, shape, name), both, 0, inner, r.config.num_heads,
               shape.keeps_sources ? r.graph.field(kKeptSources) : Tensor());
  }
}

Tensor record_t5_next(T5Recorder& r, const DecodingShape& shape) {
  const SampleRows live = {rows_of_stream(kLiveRows), r.graph.field(kLiveOffsets), {}};
  const T5Stack decoder = record_t5_decoder(r, live, shape.max_length);
  return record_blocks(r, decoder, kNextTokens, NextTokens{shape});
}

Tensor record_t5_logits(T5Recorder& r, Tensor decoded, bool head_is_tied) {
  const T5Config& config = r.config;
  r.graph.set_scope("lm_head");
  if (config.scales_outputs)
    decoded =
        scale(r.graph, "scaled", decoded, static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.d_model))));
  const Tensor weight =
      head_is_tied ? r.words() : r.weight(kT5LmHead, config.vocab_size, config.d_model, config.initializer_factor);
  return linear(r.graph, "logits", decoded, weight, Tensor{});
}

}  // namespace bascule
