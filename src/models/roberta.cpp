// SPDX-License-Identifier: Apache-2.0
// RoBERTa as a family: masked language modelling and labels of texts with BERT's body. Positions begin behind the
// number of the padding token, which is skipped, and all tokens have type 0. Equations: Transformers'
// modeling_roberta.py.
#include <optional>

#include "src/models/bert_body.h"
#include "src/models/class_labels.h"
#include "src/models/config_values.h"
#include "src/models/masked_words.h"
#include "src/models/token_labels.h"

namespace bascule {
namespace {

constexpr char kBody[] = "roberta", kPrefix[] = "roberta.";
constexpr char kHeadPrefix[] = "lm_head.", kClassifier[] = "classifier", kOutput[] = "classifier.out_proj";
constexpr MaskedWordNames kMaskedWords = {"lm_head", "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder",
                                          "lm_head.bias"};

// Transformers' class defaults.
BertConfig default_config() {
  BertConfig config;
  config.vocab_size = 50265;
  config.pad_token_id = 1;
  return config;
}

BertConfig read_roberta_config(const std::string& path) {
  const BertConfig config = read_bert_config(path, default_config());
  check_room_for_tokens(config, config.pad_token_id + 1, path);
  return config;
}

BertVariant variant_of(const BertConfig& config) {
  const std::int32_t padding = static_cast<std::int32_t>(config.pad_token_id);
  return {kBody, {padding + 1, padding}, false};
}

const char* architecture_of(const std::string& head) {
  if (head == kTokenHead) return "RobertaForTokenClassification";
  return head == kSequenceHead ? "RobertaForSequenceClassification" : "RobertaForMaskedLM";
}

// (samples, outputs), of the first row of each text.
Tensor record_classifier(BertRecorder& r, const RowStream& last, std::int64_t outputs) {
  const std::string name = kClassifier;
  r.graph.set_scope(name);
  const auto drop = [&](const char* place, Tensor x) {
    return dropout(r.graph, name + place, x, r.drop(r.config.classifier_dropout), r.keys("sample_keys"));
  };
  const Tensor first = drop(".dropout_of_row", first_rows_of(r, name, last));
  const Tensor hidden =
      activation(r.graph, name, dense(r, name + ".dense", first, r.config.hidden_size), Activation::kTanh);
  return dense(r, kOutput, drop(".dropout", hidden), outputs);
}

class Roberta final : public Model {
 public:
  explicit Roberta(const BertConfig& config, const ModelSource& source = {})
      : config_(config),
        variant_(variant_of(config)),
        masked_words_({kMaskedWords, Activation::kGelu, config, variant_, source}) {}  // whatever hidden_act is
  // The head kSequenceHead.
  Roberta(const BertConfig& config, const SequenceLabels& labels)
      : config_(config), variant_(variant_of(config)), labels_(labels) {}
  // The head kTokenHead.
  Roberta(const BertConfig& config, const TokenLabels& tags)
      : config_(config), variant_(variant_of(config)), tags_(tags) {}

  const char* architecture() const override {
    return architecture_of(labels_ ? kSequenceHead : tags_ ? kTokenHead : kMaskedWordsHead);
  }
  const char* body_prefix() const override { return kPrefix; }
  FileNames file_names() const override {
    // Where both biases are one a file may have either; where config.json ties what the weights do not, it is the
    // decoder's.
    static constexpr NameChange kChanges[] = {{"lm_head.bias", "lm_head.decoder.bias"}};
    static constexpr NameChange kWithOneBias[] = {{"lm_head.decoder.bias", "lm_head.bias"}};
    return masked_words_ && masked_words_->has_own_decoder() ? FileNames(kPrefix, kWithOneBias)
                                                             : FileNames(kPrefix, kChanges);
  }
  bool may_be_fresh(const std::string& tensor) const override {
    return tensor.rfind(kHeadPrefix, 0) == 0 || tensor.rfind(std::string(kClassifier) + ".", 0) == 0;
  }
  bool depends_on_classes(const std::string& tensor) const override {
    return tensor.rfind(tags_ ? kClassifier : kOutput, 0) == 0;
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
    if (labels_) return {"RoBERTa", {"roberta", "text-classification"}, "text-classification", "AutoTokenizer", ""};
    if (tags_) return token_card("RoBERTa", "roberta");
    return {"RoBERTa", {"roberta", "fill-mask"}, "fill-mask", "AutoTokenizer", ""};
  }

  ModelInputs inputs() const override {
    ModelInputs inputs;
    inputs.texts[0].vocabulary_size = config_.vocab_size;
    inputs.texts[0].max_positions = config_.max_position_embeddings;
    inputs.texts[0].positions = variant_.positions;
    if (labels_) set_label_inputs(*labels_, &inputs);
    if (tags_) set_tag_inputs(*tags_, &inputs);
    return inputs;
  }
  Fields fields(const RecordOptions& options) const override {
    return bert_fields(variant_, options, labels_ ? &*labels_ : nullptr, tags_.has_value());
  }
  Recording record(Graph& graph, Use use, const RecordOptions& options) const override {
    BertRecorder r(graph, config_, variant_, options);
    Recording recording;
    const RowStream last = record_body(r, kBertParts, use,
                                       labels_ ? LayerRows::kFirst
                                       : tags_ ? LayerRows::kAll
                                               : LayerRows::kRead,
                                       &recording);
    if (labels_)
      record_label_loss(graph, record_classifier(r, last, labels_->outputs), *labels_, options, &recording);
    else if (tags_)
      record_tags(r, kClassifier, config_.classifier_dropout, last, *tags_, options, &recording);
    else
      masked_words_->record(r, last, use, options, {}, &recording);
    return recording;
  }

 private:
  BertConfig config_;
  BertVariant variant_;
  std::optional<SequenceLabels> labels_;     // of the head kSequenceHead alone
  std::optional<TokenLabels> tags_;          // of the head kTokenHead alone
  std::optional<MaskedWords> masked_words_;  // of the other
};

std::vector<std::unique_ptr<Model>> small_models() {
  BertConfig config = default_config();
  config.vocab_size = 60;
  config.hidden_size = 36;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 3;
  config.intermediate_size = 50;
  config.max_position_embeddings = 22;
  config.type_vocab_size = 1;
  config.layer_norm_eps = 1e-5f;
  std::vector<std::unique_ptr<Model>> models;
  models.push_back(std::make_unique<Roberta>(config));
  models.push_back(std::make_unique<Roberta>(config, SequenceLabels{}));
  models.push_back(std::make_unique<Roberta>(config, small_tags()));
  return models;
}

std::unique_ptr<Model> open_roberta(const ModelSource& source, const std::string& head) {
  if (head == kSequenceHead) {
    return std::make_unique<Roberta>(read_roberta_config(source.config_path),
                                     read_sequence_labels(source.config_path, source));
  }
  if (head == kTokenHead) {
    return std::make_unique<Roberta>(read_roberta_config(source.config_path),
                                     read_token_labels(source.config_path, source));
  }
  if (head != kMaskedWordsHead) {
    refuse_config(source.config_path, "unknown head \"" + head + "\"",
                  std::string("RoBERTa has ") + kMaskedWordsHead + ", " + kSequenceHead + " and " + kTokenHead);
  }
  return std::make_unique<Roberta>(read_roberta_config(source.config_path), source);
}

}  // namespace

extern const Family kRoberta;
const Family kRoberta = {
    "roberta",       "", {masked_words_head(), sequence_classification_head(), token_classification_head()},
    {kBody},         {}, open_roberta,
    architecture_of, {}, small_models};

}  // namespace bascule
