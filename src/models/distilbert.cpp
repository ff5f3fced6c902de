// SPDX-License-Identifier: Apache-2.0
// DistilBERT as a family: masked language modelling and labels of texts with BERT's layers under other names. Tokens
// have no types, nothing is dropped behind an attention's projection, and epsilon is a constant. Equations:
// Transformers' modeling_distilbert.py.
#include <optional>

#include "src/models/bert_body.h"
#include "src/models/class_labels.h"
#include "src/models/config_values.h"
#include "src/models/masked_words.h"
#include "src/models/token_labels.h"

namespace bascule {
namespace {

constexpr char kBody[] = "distilbert", kPrefix[] = "distilbert.";
constexpr char kHeadPrefix[] = "vocab_", kPooler[] = "pre_classifier", kClassifier[] = "classifier";
constexpr BertVariant kVariant = {kBody, {}, false};
constexpr MaskedWordNames kMaskedWords = {"vocab_projector", "vocab_transform", "vocab_layer_norm", "vocab_projector"};
constexpr ProjectionNames kProjections = {"q_lin", "k_lin", "v_lin"};

BertConfig read_distilbert_config(const std::string& path) {
  const Json json = read_json_file(path);
  BertConfig config;
  config.num_hidden_layers = 6;
  read_config_extents(json, path,
                      {{"vocab_size", &config.vocab_size},
                       {"dim", &config.hidden_size},
                       {"n_layers", &config.num_hidden_layers},
                       {"n_heads", &config.num_attention_heads},
                       {"hidden_dim", &config.intermediate_size},
                       {"max_position_embeddings", &config.max_position_embeddings}});
  config.pad_token_id = get_int(json, "pad_token_id", path, config.pad_token_id);
  const std::string activation = get_string(json, "activation", path, "gelu");
  config.hidden_act = activation_of_name(activation, "activation", activation, path);
  config.hidden_dropout_prob = config_probability(json, "dropout", path, 0.1);
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

Tensor embeddings(BertRecorder& r) {
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

RowStream layer(BertRecorder& r, std::int64_t i, RowStream keys, LayerRows rows) {
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

const char* architecture_of(const std::string& head) {
  if (head == kTokenHead) return "DistilBertForTokenClassification";
  return head == kSequenceHead ? "DistilBertForSequenceClassification" : "DistilBertForMaskedLM";
}

// (samples, outputs), of the first row of each text.
Tensor record_classifier(BertRecorder& r, const RowStream& last, std::int64_t outputs) {
  r.graph.set_scope(kClassifier);
  const Tensor first = first_rows_of(r, kPooler, last);
  const Tensor hidden = activation(r.graph, kPooler, dense(r, kPooler, first, r.config.hidden_size), Activation::kRelu);
  const Tensor dropped = dropout(r.graph, std::string(kClassifier) + ".dropout", hidden,
                                 r.drop(r.config.classifier_dropout), r.keys("sample_keys"));
  return dense(r, kClassifier, dropped, outputs);
}

class DistilBert final : public Model {
 public:
  explicit DistilBert(const BertConfig& config, const ModelSource& source = {})
      : config_(config), masked_words_({kMaskedWords, config.hidden_act, config, kVariant, source}) {}
  // The head kSequenceHead.
  DistilBert(const BertConfig& config, const SequenceLabels& labels) : config_(config), labels_(labels) {}
  // The head kTokenHead.
  DistilBert(const BertConfig& config, const TokenLabels& tags) : config_(config), tags_(tags) {}

  const char* architecture() const override {
    return architecture_of(labels_ ? kSequenceHead : tags_ ? kTokenHead : kMaskedWordsHead);
  }
  const char* body_prefix() const override { return kPrefix; }
  bool may_be_fresh(const std::string& tensor) const override {
    return tensor.rfind(kHeadPrefix, 0) == 0 || tensor.rfind(std::string(kPooler) + ".", 0) == 0 ||
           depends_on_classes(tensor);
  }
  bool depends_on_classes(const std::string& tensor) const override {
    return tensor.rfind(std::string(kClassifier) + ".", 0) == 0;
  }
  std::vector<ParameterPiece> unused_tensors() const override {
    return masked_words_ ? masked_words_->unused_tensors() : std::vector<ParameterPiece>();
  }
  void complete_config(Json* config) const override {
    if (labels_) write_sequence_labels(*labels_, config);
    if (tags_) write_token_labels(*tags_, config);
    if (masked_words_) masked_words_->complete_config(config);
  }
  std::vector<std::string> notes() const override {
    return masked_words_ ? masked_words_->notes() : std::vector<std::string>();
  }
  ModelCardWords card() const override {
    if (labels_)
      return {"DistilBERT", {"distilbert", "text-classification"}, "text-classification", "AutoTokenizer", ""};
    if (tags_) return token_card("DistilBERT", "distilbert");
    return {"DistilBERT", {"distilbert", "fill-mask"}, "fill-mask", "AutoTokenizer", ""};
  }

  ModelInputs inputs() const override {
    ModelInputs inputs;
    inputs.texts[0].vocabulary_size = config_.vocab_size;
    inputs.texts[0].max_positions = config_.max_position_embeddings;
    inputs.texts[0].token_types = 0;
    if (labels_) set_label_inputs(*labels_, &inputs);
    if (tags_) set_tag_inputs(*tags_, &inputs);
    return inputs;
  }
  Fields fields(const RecordOptions& options) const override {
    return bert_fields(kVariant, options, labels_ ? &*labels_ : nullptr, tags_.has_value());
  }
  Recording record(Graph& graph, Use use, const RecordOptions& options) const override {
    BertRecorder r(graph, config_, kVariant, options);
    Recording recording;
    const RowStream last = record_body(r, {embeddings, layer}, use,
                                       labels_ ? LayerRows::kFirst
                                       : tags_ ? LayerRows::kAll
                                               : LayerRows::kRead,
                                       &recording);
    if (labels_)
      record_label_loss(graph, record_classifier(r, last, labels_->outputs), *labels_, options, &recording);
    else if (tags_)
      record_tags(r, kClassifier, config_.hidden_dropout_prob, last, *tags_, options, &recording);
    else
      masked_words_->record(r, last, use, options, {}, &recording);
    return recording;
  }

 private:
  BertConfig config_;
  std::optional<SequenceLabels> labels_;     // of the head kSequenceHead alone
  std::optional<TokenLabels> tags_;          // of the head kTokenHead alone
  std::optional<MaskedWords> masked_words_;  // of the other
};

std::vector<std::unique_ptr<Model>> small_models() {
  BertConfig config;
  config.vocab_size = 60;
  config.hidden_size = 36;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 3;
  config.intermediate_size = 50;
  config.max_position_embeddings = 20;
  std::vector<std::unique_ptr<Model>> models;
  models.push_back(std::make_unique<DistilBert>(config));
  models.push_back(std::make_unique<DistilBert>(config, SequenceLabels{}));
  models.push_back(std::make_unique<DistilBert>(config, small_tags()));
  return models;
}

std::unique_ptr<Model> open_distilbert(const ModelSource& source, const std::string& head) {
  if (head == kSequenceHead) {
    return std::make_unique<DistilBert>(read_distilbert_config(source.config_path),
                                        read_sequence_labels(source.config_path, source));
  }
  if (head == kTokenHead) {
    return std::make_unique<DistilBert>(read_distilbert_config(source.config_path),
                                        read_token_labels(source.config_path, source));
  }
  if (head != kMaskedWordsHead)
    refuse_config(source.config_path, "unknown head \"" + head + "\"",
                  std::string("DistilBERT has ") + kMaskedWordsHead + ", " + kSequenceHead + " and " + kTokenHead);
  return std::make_unique<DistilBert>(read_distilbert_config(source.config_path), source);
}

}  // namespace

extern const Family kDistilBert;
const Family kDistilBert = {
    "distilbert",    "", {masked_words_head(), sequence_classification_head(), token_classification_head()},
    {kBody},         {}, open_distilbert,
    architecture_of, {}, small_models};

}  // namespace bascule
