// SPDX-License-Identifier: Apache-2.0
// DistilBERT as a family: masked language modelling and labels of texts with BERT's layers under other names. Tokens
// have no types, nothing is dropped behind an attention's projection, and epsilon is a constant. Equations:
// Transformers' modeling_distilbert.py.
#include "src/models/config_values.h"
#include "src/models/text_model.h"

namespace bascule {

extern const Family kDistilBert;

namespace {

constexpr char kDistilBertBody[] = "distilbert", kDistilBertPooler[] = "pre_classifier";
constexpr MaskedWordNames kDistilBertMaskedWords = {"vocab_projector", "vocab_transform", "vocab_layer_norm",
                                                    "vocab_projector"};
constexpr ProjectionNames kProjections = {"q_lin", "k_lin", "v_lin"};

// Transformers' class defaults.
BertConfig default_distilbert_config() {
  BertConfig config;
  config.num_hidden_layers = 6;
  config.type_vocab_size = 0;
  return config;
}

BertConfig read_distilbert_config(const std::string& path) {
  const Json json = read_json_file(path);
  BertConfig config = default_distilbert_config();
  read_config_extents(json, path,
                      {{"vocab_size", &config.vocab_size},
                       {"dim", &config.hidden_size},
                       {"n_layers", &config.num_hidden_layers},
                       {"n_heads", &config.num_attention_heads},
                       {"hidden_dim", &config.intermediate_size},
                       {"max_position_embeddings", &config.max_position_embeddings}});
  config.pad_token_id = get_int(json, "pad_token_id", path, config.pad_token_id);
  const std::string activation = get_string(json, "activation", path, "gelu");
  config.hidden_act = config.head_act = activation_of_name(activation, "activation", activation, path);
  config.hidden_dropout_prob = config.tag_dropout = config_probability(json, "dropout", path, 0.1);
  config.attention_probs_dropout_prob = config_probability(json, "attention_dropout", path, 0.1);
  config.classifier_dropout = config_probability(json, "seq_classif_dropout", path, 0.2);
  config.initializer_range = config_factor(json, "initializer_range", path, config.initializer_range);
  config.tie_word_embeddings = get_bool(json, "tie_word_embeddings", path, true);
  check_width_of_heads(config.hidden_size, config.num_attention_heads, path, "dim", "n_heads");
  check_room_for_tokens(config, 0, path);
  check_padding_token(config.pad_token_id, config.vocab_size, path);
  if (get_bool(json, "sinusoidal_pos_embds", path, false))
    refuse_config(path, "sinusoidal_pos_embds = true is not supported");
  return config;
}

Tensor distilbert_embeddings(BertRecorder& r) {
  const BertConfig& config = r.config;
  const std::string name = r.variant.prefix() + "embeddings";
  r.graph.set_scope(name);
  const Tensor positions =
      r.table(name + ".position_embeddings.weight", config.max_position_embeddings, config.hidden_size, r.deviation);
  const Tensor word =
      text_embedding(r.graph, name + ".words", {word_table(r), {}, {}}, {r.graph.field("token_ids"), {}, {}},
                     {static_cast<std::int32_t>(config.pad_token_id), -1});
  const Tensor position =
      text_embedding(r.graph, name + ".positions", {positions, {}, {}}, {r.graph.field("position_ids"), {}, {}}, {});
  const Tensor normed = add_norm(r, name + ".LayerNorm", word, position, config.layer_norm_eps).y;
  return dropout(r.graph, name + ".dropout", normed, r.drop(config.hidden_dropout_prob), r.keys("text_row_keys"));
}

RowStream distilbert_layer(BertRecorder& r, std::int64_t i, RowStream keys, LayerRows rows) {
  const std::string name = r.variant.prefix() + "transformer.layer." + std::to_string(i);
  r.graph.set_scope(name);
  RowStream x = pick_rows(r, name, keys, rows);
  const std::string attention = name + ".attention", feed_forward = name + ".ffn";
  const Tensor context = projected_attention(r, attention, attention + ".", r.layer, x, keys, true, kProjections);
  const Tensor a = dense(r, attention + ".out_lin", context, r.layer.width);
  x.x = add_norm(r, name + ".sa_layer_norm", x.x, a, r.layer.epsilon).y;
  const Tensor up = activation(r.graph, feed_forward + ".activation",
                               dense(r, feed_forward + ".lin1", x.x, r.layer.intermediate), r.layer.activation);
  const Tensor h = dense(r, feed_forward + ".lin2", up, r.layer.width);
  x.x =
      add_norm(r, name + ".output_layer_norm", x.x, h, r.layer.epsilon, r.drop(r.layer.hidden_dropout), x.rows.row_keys)
          .y;
  return x;
}

// As SequenceLayers says.
Tensor distilbert_label_logits(BertRecorder& r, const RowStream& last, std::int64_t outputs, Use /*use*/, Recording*) {
  r.graph.set_scope(kClassifier);
  const Tensor first = first_rows_of(r, kDistilBertPooler, last);
  const Tensor hidden = activation(r.graph, kDistilBertPooler, dense(r, kDistilBertPooler, first, r.config.hidden_size),
                                   Activation::kRelu);
  const Tensor dropped = dropout(r.graph, std::string(kClassifier) + ".dropout", hidden,
                                 r.drop(r.config.classifier_dropout), r.keys("sample_keys"));
  return dense(r, kClassifier, dropped, outputs);
}

const TextFamily kDistilBertTexts = {kDistilBert,
                                     "DistilBERT",
                                     read_distilbert_config,
                                     [](const BertConfig&) {
                                       return BertVariant{kDistilBertBody, {}, false};
                                     },
                                     {distilbert_embeddings, distilbert_layer},
                                     kDistilBertMaskedWords,
                                     {distilbert_label_logits, kClassifier}};

std::vector<std::unique_ptr<Model>> small_distilbert_models() {
  BertConfig config = small_text_config(default_distilbert_config());
  config.vocab_size = 60;
  config.max_position_embeddings = 20;
  return small_text_models(kDistilBertTexts, config,
                           small_embeddings(Pooling::kMax, false, 2, EmbeddingLoss::kSymmetricRanking));
}

std::unique_ptr<Model> open_distilbert(const ModelSource& source, const std::string& head) {
  return open_text_model(kDistilBertTexts, source, head);
}

}  // namespace

const Family kDistilBert = {"distilbert",    "", text_heads("DistilBert"), {kDistilBertBody}, {},
                            open_distilbert, {}, small_distilbert_models};

}  // namespace bascule
