// SPDX-License-Identifier: Apache-2.0
#include "src/models/bert_body.h"

#include <algorithm>

#include "src/models/config_values.h"

namespace bascule {

BertConfig read_bert_config(const std::string& path, BertConfig config) {
  const Json json = read_json_file(path);
  read_config_extents(json, path,
                      {{"vocab_size", &config.vocab_size},
                       {"hidden_size", &config.hidden_size},
                       {"num_hidden_layers", &config.num_hidden_layers},
                       {"num_attention_heads", &config.num_attention_heads},
                       {"intermediate_size", &config.intermediate_size},
                       {"max_position_embeddings", &config.max_position_embeddings},
                       {"type_vocab_size", &config.type_vocab_size}});
  config.pad_token_id = get_int(json, "pad_token_id", path, config.pad_token_id);
  config.hidden_act = config.head_act = config_activation(json, path);
  config.hidden_dropout_prob = config_probability(json, "hidden_dropout_prob", path, 0.1);
  config.attention_probs_dropout_prob = config_probability(json, "attention_probs_dropout_prob", path, 0.1);
  const Json* const of_classifier = find_member(json, "classifier_dropout", path);
  config.classifier_dropout = of_classifier == nullptr || of_classifier->is_null()
                                  ? config.hidden_dropout_prob
                                  : config_probability(json, "classifier_dropout", path, 0.1);
  config.tag_dropout = config.classifier_dropout;
  config.layer_norm_eps = config_epsilon(json, path, 1e-12);
  config.initializer_range = config_factor(json, "initializer_range", path, config.initializer_range);
  config.tie_word_embeddings = get_bool(json, "tie_word_embeddings", path, true);
  check_width_of_heads(config.hidden_size, config.num_attention_heads, path);
  check_room_for_tokens(config, 0, path);
  check_padding_token(config.pad_token_id, config.vocab_size, path);
  for (const char* key : {"is_decoder", "add_cross_attention"}) {
    if (get_bool(json, key, path, false)) refuse_config(path, std::string(key) + " = true is not supported");
  }
  check_positions_are_absolute(json, path);
  return config;
}

void check_room_for_tokens(const BertConfig& config, std::int64_t first, const std::string& path) {
  if (config.max_position_embeddings - first >= 3) return;
  refuse_config(path, "max_position_embeddings = " + std::to_string(config.max_position_embeddings) +
                          " leaves no position for a token between the special ones" +
                          (first > 0 ? ": the first has position " + std::to_string(first) : ""));
}

BertRecorder::BertRecorder(Graph& target, const BertConfig& model_config, const BertVariant& model_variant,
                           const RecordOptions& options)
    : Recorder{target, {}, model_config.initializer_range, options.dropout},
      config(model_config),
      variant(model_variant) {
  if (std::find(options.frozen.begin(), options.frozen.end(), variant.body) != options.frozen.end())
    frozen = {variant.prefix()};
  layer = {config.hidden_size,    config.num_attention_heads, config.intermediate_size,           config.hidden_act,
           config.layer_norm_eps, config.hidden_dropout_prob, config.attention_probs_dropout_prob};
}

Fields bert_fields(const BertVariant& variant, const RecordOptions& options, LayerRows rows, const Fields& of_head,
                   std::int64_t texts_in_a_row) {
  const Extent tokens = rows_of_stream(kTokenStream), read = rows_of_stream(kReadStream),
               offsets = {kSamples, texts_in_a_row, 1};
  Fields fields = {
      {"token_ids", DType::kInt32, tokens, 1, FieldSource::kTokenIds},
      {"position_ids", DType::kInt32, tokens, 1, FieldSource::kPositionIds},
      {"text_offsets", DType::kInt32, offsets, 1, FieldSource::kTextOffsets},
  };
  if (variant.reads_types) fields.push_back({"token_types", DType::kInt32, tokens, 1, FieldSource::kTokenTypes});
  fields.insert(fields.end(), of_head.begin(), of_head.end());
  const bool picks = rows == LayerRows::kRead;
  if (picks) {
    fields.push_back({"read_rows", DType::kInt32, read, 1, FieldSource::kReadRows});
    fields.push_back({"read_offsets", DType::kInt32, offsets, 1, FieldSource::kReadOffsets});
  }
  if (options.dropout) {
    fields.push_back({"text_row_keys", DType::kInt64, tokens, 1, FieldSource::kTextRowKeys});
    if (picks) fields.push_back({"read_row_keys", DType::kInt64, read, 1, FieldSource::kReadRowKeys});
    fields.push_back({"sample_keys", DType::kInt64, rows_per_sample(texts_in_a_row), 1, FieldSource::kSampleKeys});
  }
  return fields;
}

std::string word_table_name(const BertVariant& variant) {
  return variant.prefix() + "embeddings.word_embeddings.weight";
}

Tensor word_table(BertRecorder& r) {
  return r.table(word_table_name(r.variant), r.config.vocab_size, r.config.hidden_size, r.deviation,
                 r.config.pad_token_id);
}

RowStream pick_rows(BertRecorder& r, const std::string& name, const RowStream& all, LayerRows rows) {
  if (rows == LayerRows::kFirst) return {first_rows(r.graph, name + ".first", all.x, all.rows), r.first_rows()};
  if (rows == LayerRows::kAll) return all;
  return {gather_rows(r.graph, name + ".read", all.x, r.graph.field("read_rows")),
          {rows_of_stream(kReadStream), r.graph.field("read_offsets"), r.keys("read_row_keys"), true}};
}

namespace {

Tensor bert_embeddings(BertRecorder& r) {
  const BertConfig& config = r.config;
  const std::string name = r.variant.prefix() + "embeddings";
  r.graph.set_scope(name);
  const std::int32_t skipped = r.variant.positions.skipped_id;
  const Tensor word = word_table(r);
  const Tensor position = r.table(name + ".position_embeddings.weight", config.max_position_embeddings,
                                  config.hidden_size, r.deviation, skipped);
  const Tensor type =
      r.table(name + ".token_type_embeddings.weight", config.type_vocab_size, config.hidden_size, r.deviation);
  const Tensor types = r.variant.reads_types ? r.graph.field("token_types") : Tensor{};
  const Tensor sum = text_embedding(r.graph, name, {word, position, type},
                                    {r.graph.field("token_ids"), r.graph.field("position_ids"), types},
                                    {static_cast<std::int32_t>(config.pad_token_id), skipped});
  const Tensor normed = norm(r, name + ".LayerNorm", sum, config.layer_norm_eps);
  return dropout(r.graph, name + ".dropout", normed, r.drop(config.hidden_dropout_prob), r.keys("text_row_keys"));
}

RowStream bert_layer(BertRecorder& r, std::int64_t i, RowStream keys, LayerRows rows) {
  const std::string name = r.variant.prefix() + "encoder.layer." + std::to_string(i);
  r.graph.set_scope(name);
  RowStream queries = pick_rows(r, name, keys, rows);
  queries.x = attention_block(r, name + ".attention", r.layer, queries, keys);
  return {feed_forward_block(r, name, r.layer, queries), queries.rows};
}

}  // namespace

const BodyParts kBertParts = {bert_embeddings, bert_layer};

RowStream record_body(BertRecorder& r, const BodyParts& parts, Use use, LayerRows rows, Recording* recording) {
  RowStream last{parts.embeddings(r), r.rows()};
  for (std::int64_t i = 0; i < r.config.num_hidden_layers; ++i) {
    const bool is_last = i + 1 == r.config.num_hidden_layers;
    last = parts.layer(r, i, last, is_last && use != Use::kReference ? rows : LayerRows::kAll);
  }
  if (use == Use::kReference) {
    r.graph.keep(last.x);
    recording->reference.push_back({"last_hidden_state", {last.x}, ReferenceRows::kTokens});
  }
  return last;
}

Tensor first_rows_of(BertRecorder& r, const std::string& name, const RowStream& last) {
  return last.rows.extent == r.first_rows().extent ? last.x : first_rows(r.graph, name + ".first", last.x, last.rows);
}

}  // namespace bascule
