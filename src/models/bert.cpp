// SPDX-License-Identifier: Apache-2.0
// BERT as a family: masked language modelling, pre-training with it and next sentences, and labels of texts. Equations:
// Transformers' modeling_bert.py.
#include <optional>

#include "src/models/bert_body.h"
#include "src/models/class_labels.h"
#include "src/models/config_values.h"
#include "src/models/masked_words.h"
#include "src/models/token_labels.h"

namespace bascule {
namespace {

constexpr char kPretrainingHead[] = "pretraining";
constexpr char kBody[] = "bert", kPrefix[] = "bert.", kClassifier[] = "classifier";
constexpr std::int64_t kNextSentenceClasses = 2;  // the second text follows the first one, or is a random one
constexpr BertVariant kVariant = {kBody, {}};
constexpr MaskedWordNames kMaskedWords = {"cls.predictions", "cls.predictions.transform.dense",
                                          "cls.predictions.transform.LayerNorm", "cls.predictions.decoder",
                                          "cls.predictions.bias"};

struct NextSentence {
  Tensor pooled, logits;
};

// (samples, width), of the first row of each text.
Tensor record_pooler(BertRecorder& r, const RowStream& last) {
  const std::string pooler = std::string(kPrefix) + "pooler";
  const Tensor first = first_rows_of(r, pooler, last);
  return activation(r.graph, pooler, dense(r, pooler + ".dense", first, r.config.hidden_size), Activation::kTanh);
}

NextSentence record_next_sentence(BertRecorder& r, const RowStream& last) {
  r.graph.set_scope("cls.seq_relationship");
  const Tensor pooled = record_pooler(r, last);
  return {pooled, dense(r, "cls.seq_relationship", pooled, kNextSentenceClasses)};
}

const char* architecture_of(const std::string& head) {
  if (head == kSequenceHead) return "BertForSequenceClassification";
  if (head == kTokenHead) return "BertForTokenClassification";
  return head == kPretrainingHead ? "BertForPreTraining" : "BertForMaskedLM";
}

class Bert final : public Model {
 public:
  Bert(const BertConfig& config, const std::string& head, const ModelSource& source = {})
      : config_(config),
        pretrains_(head == kPretrainingHead),
        masked_words_({kMaskedWords, config.hidden_act, config, kVariant, source}) {}
  // The head kSequenceHead.
  Bert(const BertConfig& config, const SequenceLabels& labels) : config_(config), labels_(labels) {}
  // The head kTokenHead.
  Bert(const BertConfig& config, const TokenLabels& tags) : config_(config), tags_(tags) {}

  const char* architecture() const override {
    return architecture_of(labels_      ? kSequenceHead
                           : tags_      ? kTokenHead
                           : pretrains_ ? kPretrainingHead
                                        : kMaskedWordsHead);
  }
  const char* body_prefix() const override { return kPrefix; }
  FileNames file_names() const override {
    // Files that were converted from the original code. Where both biases are one a file may have either.
    static constexpr NameChange kChanges[] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                              {"LayerNorm.bias", "LayerNorm.beta"},
                                              {"cls.predictions.bias", "cls.predictions.decoder.bias"}};
    // Where config.json ties what the weights do not, the one bias is the decoder's.
    static constexpr NameChange kWithOneBias[] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                                  {"LayerNorm.bias", "LayerNorm.beta"},
                                                  {"cls.predictions.decoder.bias", "cls.predictions.bias"}};
    return masked_words_ && masked_words_->has_own_decoder() ? FileNames(kPrefix, kWithOneBias)
                                                             : FileNames(kPrefix, kChanges);
  }
  // The pooler is part of the heads that read the first row alone.
  bool may_be_fresh(const std::string& tensor) const override {
    return tensor.rfind("cls.", 0) == 0 || depends_on_classes(tensor) ||
           tensor.rfind(std::string(kPrefix) + "pooler.", 0) == 0;
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
    if (labels_) return {"BERT", {"bert", "text-classification"}, "text-classification", "AutoTokenizer", ""};
    if (tags_) return token_card("BERT", "bert");
    return {"BERT", {"bert", "fill-mask"}, "fill-mask", "AutoTokenizer", ""};
  }

  ModelInputs inputs() const override {
    ModelInputs inputs;
    inputs.texts[0].vocabulary_size = config_.vocab_size;
    inputs.texts[0].max_positions = config_.max_position_embeddings;
    inputs.texts[0].token_types = config_.type_vocab_size;
    inputs.reads_pairs = pretrains_;
    inputs.classes = kNextSentenceClasses;
    if (labels_) set_label_inputs(*labels_, &inputs);
    if (tags_) set_tag_inputs(*tags_, &inputs);
    return inputs;
  }
  Fields fields(const RecordOptions& options) const override;
  Recording record(Graph& graph, Use use, const RecordOptions& options) const override;

 private:
  void record_pairs(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
                    Recording* recording) const;
  void record_label(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
                    Recording* recording) const;

  BertConfig config_;
  bool pretrains_ = false;
  std::optional<SequenceLabels> labels_;     // of the head kSequenceHead alone
  std::optional<TokenLabels> tags_;          // of the head kTokenHead alone
  std::optional<MaskedWords> masked_words_;  // of the others
};

Fields Bert::fields(const RecordOptions& options) const {
  Fields fields = bert_fields(kVariant, options, labels_ ? &*labels_ : nullptr, tags_.has_value());
  if (pretrains_)
    fields.push_back({"next_sentence_labels", DType::kInt32, rows_per_sample(1), 1, FieldSource::kClassLabels});
  return fields;
}

void Bert::record_pairs(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
                        Recording* recording) const {
  Graph& graph = r.graph;
  const NextSentence next = record_next_sentence(r, last);
  const Tensor labels = graph.field("next_sentence_labels");
  const int term = static_cast<int>(recording->losses.size());
  const ClassLoss loss = cross_entropy_loss(graph, next.logits, labels, options.label_smoothing, {}, term);
  recording->losses.push_back({"next_sentence_loss", loss.loss, kSamples});
  recording->outputs.push_back({"next_sentence_hits", loss.hits});
  if (use == Use::kReference) {
    graph.keep(next.pooled);
    graph.keep(next.logits);
  }
  if (options.predictions) {
    const ClassPredictions predictions = class_predictions(graph, next.logits, labels, loss);
    recording->outputs.push_back({"next_sentence_predicted", predictions.classes});
    recording->outputs.push_back({"next_sentence_probabilities", predictions.probabilities});
  }
  recording->reference.push_back({"pooler_output", {next.pooled}});
  recording->reference.push_back({"seq_relationship_logits", {next.logits}});
}

void Bert::record_label(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
                        Recording* recording) const {
  r.graph.set_scope(kClassifier);
  const Tensor pooled = record_pooler(r, last);
  const Tensor dropped = dropout(r.graph, std::string(kClassifier) + ".dropout", pooled,
                                 r.drop(config_.classifier_dropout), r.keys("sample_keys"));
  const Tensor logits = dense(r, kClassifier, dropped, labels_->outputs);
  if (use == Use::kReference) {
    r.graph.keep(pooled);
    recording->reference.push_back({"pooler_output", {pooled}});
  }
  record_label_loss(r.graph, logits, *labels_, options, recording);
}

Recording Bert::record(Graph& graph, Use use, const RecordOptions& options) const {
  BertRecorder r(graph, config_, kVariant, options);
  Recording recording;
  const LayerRows rows = labels_ ? LayerRows::kFirst : tags_ ? LayerRows::kAll : LayerRows::kRead;
  const RowStream last = record_body(r, kBertParts, use, rows, &recording);
  if (labels_) {
    record_label(r, last, use, options, &recording);
    return recording;
  }
  if (tags_) {
    record_tags(r, kClassifier, config_.classifier_dropout, last, *tags_, options, &recording);
    return recording;
  }
  const MaskedWords::ResultNames results =
      pretrains_ ? MaskedWords::ResultNames{"masked_lm_loss", "prediction_logits"} : MaskedWords::ResultNames{};
  masked_words_->record(r, last, use, options, results, &recording);
  if (pretrains_) record_pairs(r, last, use, options, &recording);
  return recording;
}

std::vector<FamilyHead> heads() {
  FamilyHead pretraining;
  pretraining.words.name = kPretrainingHead;
  pretraining.words.reads_labels = pretraining.words.has_classes = pretraining.words.reads_pairs = true;
  pretraining.loss_terms = 2;
  pretraining.judge = "pretraining";
  return {masked_words_head(), pretraining, sequence_classification_head(), token_classification_head()};
}

std::vector<std::unique_ptr<Model>> small_models() {
  BertConfig config;
  config.vocab_size = 70;
  config.hidden_size = 36;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 3;
  config.intermediate_size = 50;
  config.max_position_embeddings = 20;
  std::vector<std::unique_ptr<Model>> models;
  for (const char* const head : {kMaskedWordsHead, kPretrainingHead})
    models.push_back(std::make_unique<Bert>(config, head));
  SequenceLabels classes, values;
  classes.outputs = 3;
  values.outputs = 1;
  values.are_values = true;
  for (const SequenceLabels& labels : {classes, values}) models.push_back(std::make_unique<Bert>(config, labels));
  models.push_back(std::make_unique<Bert>(config, small_tags()));
  return models;
}

std::unique_ptr<Model> open_bert(const ModelSource& source, const std::string& head) {
  if (head == kTokenHead) {
    return std::make_unique<Bert>(read_bert_config(source.config_path), read_token_labels(source.config_path, source));
  }
  if (head != kMaskedWordsHead && head != kPretrainingHead && head != kSequenceHead) {
    refuse_config(source.config_path, "unknown head \"" + head + "\"",
                  std::string("BERT has ") + kMaskedWordsHead + ", " + kPretrainingHead + ", " + kSequenceHead +
                      " and " + kTokenHead);
  }
  if (head == kSequenceHead) {
    return std::make_unique<Bert>(read_bert_config(source.config_path),
                                  read_sequence_labels(source.config_path, source));
  }
  return std::make_unique<Bert>(read_bert_config(source.config_path), head, source);
}

}  // namespace

extern const Family kBert;
const Family kBert = {"bert", "", heads(), {kBody}, {}, open_bert, architecture_of, {}, small_models};

}  // namespace bascule
