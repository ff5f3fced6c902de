// SPDX-License-Identifier: Apache-2.0
// BERT as a family: masked language modelling, pre-training with it and next sentences, and labels of texts. Equations:
// Transformers' modeling_bert.py.
#include "src/models/text_model.h"

namespace bascule {

extern const Family kBert;

namespace {

constexpr char kPretrainingHead[] = "pretraining";
constexpr char kBertBody[] = "bert", kBertPooler[] = "bert.pooler", kNextSentence[] = "cls.seq_relationship";
constexpr std::int64_t kNextSentenceClasses = 2;  // the second text follows the first one, or is a random one
constexpr MaskedWordNames kBertMaskedWords = {"cls.predictions", "cls.predictions.transform.dense",
                                              "cls.predictions.transform.LayerNorm", "cls.predictions.decoder",
                                              "cls.predictions.bias"};
constexpr MaskedWordNames kPretrainingWords = {kBertMaskedWords.scope,   kBertMaskedWords.dense, kBertMaskedWords.norm,
                                               kBertMaskedWords.decoder, kBertMaskedWords.bias,  "masked_lm_loss",
                                               "prediction_logits"};
// Files that were converted from the original code. Where both biases are one a file may have either.
constexpr NameChange kBertNames[] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                     {"LayerNorm.bias", "LayerNorm.beta"},
                                     {"cls.predictions.bias", "cls.predictions.decoder.bias"}};
// An untied decoder's one bias is its own.
constexpr NameChange kUntiedBertNames[] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                           {"LayerNorm.bias", "LayerNorm.beta"},
                                           {"cls.predictions.decoder.bias", "cls.predictions.bias"}};

// (samples, width), of the first row of each text.
Tensor record_pooler(BertRecorder& r, const RowStream& last) {
  const std::string name = kBertPooler;
  return activation(r.graph, name, dense(r, name + ".dense", first_rows_of(r, name, last), r.config.hidden_size),
                    Activation::kTanh);
}

// As SequenceLayers says: dropout and a layer behind the pooler.
Tensor bert_label_logits(BertRecorder& r, const RowStream& last, std::int64_t outputs, Use use, Recording* recording) {
  const std::string name = kClassifier;
  r.graph.set_scope(name);
  const Tensor pooled = record_pooler(r, last);
  const Tensor dropped =
      dropout(r.graph, name + ".dropout", pooled, r.drop(r.config.classifier_dropout), r.keys("sample_keys"));
  if (use == Use::kReference) {
    r.graph.keep(pooled);
    recording->reference.push_back({"pooler_output", {pooled}});
  }
  return dense(r, name, dropped, outputs);
}

const TextFamily kBertTexts = {kBert,
                               "BERT",
                               [](const std::string& path) { return read_bert_config(path); },
                               [](const BertConfig&) {
                                 return BertVariant{kBertBody, {}};
                               },
                               kBertParts,
                               kBertMaskedWords,
                               {bert_label_logits, kClassifier},
                               {kBertNames, std::size(kBertNames)},
                               {kUntiedBertNames, std::size(kUntiedBertNames)}};

// Masked words, and whether the second text of a pair follows the first one.
class Pretraining final : public MaskedWords {
 public:
  explicit Pretraining(const BertConfig& config, const ModelSource& source = {})
      : MaskedWords(kPretrainingWords, config, kBertTexts.variant(config), source) {}

  const char* name() const override { return kPretrainingHead; }
  Fields fields(const RecordOptions& options) const override {
    Fields fields = MaskedWords::fields(options);
    fields.push_back({"next_sentence_labels", DType::kInt32, rows_per_sample(1), 1, FieldSource::kClassLabels});
    return fields;
  }
  void set_inputs(ModelInputs* inputs) const override {
    inputs->reads_pairs = true;
    inputs->classes = kNextSentenceClasses;
  }
  void record(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
              Recording* recording) const override {
    MaskedWords::record(r, last, use, options, recording);
    record_pairs(r, last, use, options, recording);
  }

 private:
  static void record_pairs(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
                           Recording* recording);
};

void Pretraining::record_pairs(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
                               Recording* recording) {
  Graph& graph = r.graph;
  graph.set_scope(kNextSentence);
  const Tensor pooled = record_pooler(r, last), logits = dense(r, kNextSentence, pooled, kNextSentenceClasses);
  const Tensor labels = graph.field("next_sentence_labels");
  const int term = static_cast<int>(recording->losses.size());
  const ClassLoss loss = cross_entropy_loss(graph, logits, labels, options.label_smoothing, {}, term);
  recording->losses.push_back({"next_sentence_loss", loss.loss, kSamples});
  recording->outputs.push_back({"next_sentence_hits", loss.hits});
  if (use == Use::kReference) {
    graph.keep(pooled);
    graph.keep(logits);
  }
  if (options.predictions) {
    const ClassPredictions predictions = class_predictions(graph, logits, labels, loss);
    recording->outputs.push_back({"next_sentence_predicted", predictions.classes});
    recording->outputs.push_back({"next_sentence_probabilities", predictions.probabilities});
  }
  recording->reference.push_back({"pooler_output", {pooled}});
  recording->reference.push_back({"seq_relationship_logits", {logits}});
}

std::vector<FamilyHead> bert_heads() {
  FamilyHead pretraining;
  pretraining.words.name = kPretrainingHead;
  pretraining.words.reads_labels = pretraining.words.has_classes = pretraining.words.reads_pairs = true;
  pretraining.architecture = "BertForPreTraining";
  pretraining.loss_terms = 2;
  pretraining.judge = "pretraining";
  std::vector<FamilyHead> all = text_heads("Bert");
  all.insert(all.begin() + 1, pretraining);
  return all;
}

std::vector<std::unique_ptr<Model>> small_bert_models() {
  BertConfig config = small_text_config({});
  config.vocab_size = 70;
  config.max_position_embeddings = 20;
  ClassifierLabels values = small_labels(1);
  values.are_values = true;
  std::vector<std::unique_ptr<Model>> models;
  models.push_back(std::make_unique<TextModel>(kBertTexts, config, kMaskedWordsHead));
  models.push_back(std::make_unique<TextModel>(kBertTexts, config, std::make_unique<Pretraining>(config)));
  models.push_back(std::make_unique<TextModel>(kBertTexts, config, kSequenceHead, small_labels(3)));
  models.push_back(std::make_unique<TextModel>(kBertTexts, config, kSequenceHead, values));
  models.push_back(std::make_unique<TextModel>(kBertTexts, config, kTokenHead, small_labels(5)));
  for (const ModelSource& source : {small_embeddings(Pooling::kMean, true, 3, EmbeddingLoss::kRanking),
                                    small_embeddings(Pooling::kMean, false, 2, EmbeddingLoss::kCosineSimilarity)})
    models.push_back(std::make_unique<TextModel>(kBertTexts, config, kEmbeddingHead, ClassifierLabels{}, source));
  return models;
}

std::unique_ptr<Model> open_bert(const ModelSource& source, const std::string& head) {
  if (head != kPretrainingHead) return open_text_model(kBertTexts, source, head);
  const BertConfig config = read_bert_config(source.config_path);
  return std::make_unique<TextModel>(kBertTexts, config, std::make_unique<Pretraining>(config, source));
}

}  // namespace

const Family kBert = {"bert", "", bert_heads(), {kBertBody}, {}, open_bert, {}, small_bert_models};

}  // namespace bascule
