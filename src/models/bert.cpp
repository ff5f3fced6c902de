// SPDX-License-Identifier: Apache-2.0
// BERT as a family: masked language modelling, pre-training with it and next sentences, and labels of texts. Equations:
// Transformers' modeling_bert.py.
#include <algorithm>
#include <optional>

#include "src/models/bert_config.h"
#include "src/models/class_labels.h"
#include "src/models/config_values.h"
#include "src/models/families.h"
#include "src/models/recorder.h"

namespace bascule {
namespace {

constexpr char kMaskedLmHead[] = "masked_lm", kPretrainingHead[] = "pretraining";
constexpr char kBody[] = "bert", kPrefix[] = "bert.", kClassifier[] = "classifier";
constexpr std::int64_t kNextSentenceClasses = 2;  // the second text follows the first one, or is a random one
constexpr char kDecoder[] = "cls.predictions.decoder", kBias[] = "cls.predictions.bias";
constexpr int kTokens = kFirstModelStream;            // of the packed texts
constexpr int kMaskedTokens = kFirstModelStream + 1;  // those that are predicted
constexpr int kReadTokens = kFirstModelStream + 2;    // those that the heads read: of each text the first one too

struct BertRecorder : Recorder {
  BertRecorder(Graph& target, const BertConfig& model_config, const RecordOptions& options)
      : Recorder{target, {}, model_config.initializer_range, options.dropout}, config(model_config) {
    if (std::find(options.frozen.begin(), options.frozen.end(), kBody) != options.frozen.end()) frozen = {kPrefix};
    layer = {config.hidden_size,    config.num_attention_heads, config.intermediate_size,           config.hidden_act,
             config.layer_norm_eps, config.hidden_dropout_prob, config.attention_probs_dropout_prob};
  }
  SampleRows rows() const { return {rows_of_stream(kTokens), graph.field("text_offsets"), keys("text_row_keys")}; }

  const BertConfig& config;
  LayerShape layer;
};

std::string word_table_name() { return std::string(kPrefix) + "embeddings.word_embeddings.weight"; }

// The row of the padding token is zero when it is fresh, and looking it up trains it no more.
Tensor word_table(BertRecorder& r) {
  return r.table(word_table_name(), r.config.vocab_size, r.config.hidden_size, r.deviation, r.config.pad_token_id);
}

Tensor record_embeddings(BertRecorder& r) {
  const BertConfig& config = r.config;
  const std::string name = std::string(kPrefix) + "embeddings";
  r.graph.set_scope(name);
  const Tensor word = word_table(r);
  const Tensor position =
      r.table(name + ".position_embeddings.weight", config.max_position_embeddings, config.hidden_size, r.deviation);
  const Tensor type =
      r.table(name + ".token_type_embeddings.weight", config.type_vocab_size, config.hidden_size, r.deviation);
  const Tensor sum =
      text_embedding(r.graph, name, {word, position, type},
                     {r.graph.field("token_ids"), r.graph.field("position_ids"), r.graph.field("token_types")},
                     {static_cast<std::int32_t>(config.pad_token_id), -1});
  const Tensor normed = norm(r, name + ".LayerNorm", sum, config.layer_norm_eps);
  return dropout(r.graph, name + ".dropout", normed, r.drop(config.hidden_dropout_prob), r.keys("text_row_keys"));
}

// The rows of the last layer that the heads read; its keys and values are of all rows.
enum class LayerRows { kAll, kRead, kFirst };

RowStream record_layer(BertRecorder& r, std::int64_t i, RowStream keys, LayerRows rows) {
  const std::string name = std::string(kPrefix) + "encoder.layer." + std::to_string(i);
  r.graph.set_scope(name);
  RowStream queries = keys;
  if (rows == LayerRows::kFirst) queries = {first_rows(r.graph, name + ".first", keys.x, keys.rows), r.first_rows()};
  if (rows == LayerRows::kRead) {
    queries = {gather_rows(r.graph, name + ".read", keys.x, r.graph.field("read_rows")),
               {rows_of_stream(kReadTokens), r.graph.field("read_offsets"), r.keys("read_row_keys"), true}};
  }
  queries.x = attention_block(r, name + ".attention", r.layer, queries, keys);
  return {feed_forward_block(r, name, r.layer, queries), queries.rows};
}

struct NextSentence {
  Tensor pooled, logits;
};

// (samples, width), of the first row of each text.
Tensor record_pooler(BertRecorder& r, const RowStream& last) {
  const std::string pooler = std::string(kPrefix) + "pooler";
  const bool are_first = last.rows.extent == rows_per_sample(1);
  const Tensor first = are_first ? last.x : first_rows(r.graph, pooler + ".first", last.x, last.rows);
  return activation(r.graph, pooler, dense(r, pooler + ".dense", first, r.config.hidden_size), Activation::kTanh);
}

NextSentence record_next_sentence(BertRecorder& r, const RowStream& last) {
  r.graph.set_scope("cls.seq_relationship");
  const Tensor pooled = record_pooler(r, last);
  return {pooled, dense(r, "cls.seq_relationship", pooled, kNextSentenceClasses)};
}

const char* architecture_of(const std::string& head) {
  if (head == kSequenceHead) return "BertForSequenceClassification";
  return head == kPretrainingHead ? "BertForPreTraining" : "BertForMaskedLM";
}

class Bert final : public Model {
 public:
  Bert(const BertConfig& config, const std::string& head, ModelSource source = {})
      : config_(config),
        pretrains_(head == kPretrainingHead),
        source_(std::move(source)),
        decoder_is_tied_(find_whether_tied()),
        decoder_has_bias_(!decoder_is_tied_ || find_whether_biases_differ()) {}
  // The head kSequenceHead.
  Bert(const BertConfig& config, const SequenceLabels& labels)
      : config_(config), labels_(labels), decoder_is_tied_(config.tie_word_embeddings), decoder_has_bias_(false) {}

  const char* architecture() const override {
    return architecture_of(labels_ ? kSequenceHead : pretrains_ ? kPretrainingHead : kMaskedLmHead);
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
    return has_own_decoder() ? FileNames(kPrefix, kWithOneBias) : FileNames(kPrefix, kChanges);
  }
  // The pooler is part of the heads that read the first row alone.
  bool may_be_fresh(const std::string& tensor) const override {
    return tensor.rfind("cls.", 0) == 0 || depends_on_classes(tensor) ||
           tensor.rfind(std::string(kPrefix) + "pooler.", 0) == 0;
  }
  bool depends_on_classes(const std::string& tensor) const override {
    return tensor.rfind(std::string(kClassifier) + ".", 0) == 0;
  }
  // The reference adds the decoder's bias; where that is another tensor this one is not read.
  std::vector<ParameterPiece> unused_tensors() const override {
    if (!decoder_has_bias_) return {};
    ParameterPiece bias;
    bias.name = kBias;
    bias.shape = {config_.vocab_size};
    bias.elements = config_.vocab_size;
    return {bias};
  }
  void complete_config(Json* config) const override {
    if (labels_) write_sequence_labels(*labels_, config);
    if (has_own_decoder()) (*config)["tie_word_embeddings"] = false;
  }
  std::vector<std::string> notes() const override {
    if (!has_own_decoder()) return {};
    return {
        "the folder's decoder differs from its word table: both are trained, and config.json will say "
        "tie_word_embeddings = false"};
  }
  ModelCardWords card() const override {
    if (labels_) return {"BERT", {"bert", "text-classification"}, "text-classification", "AutoTokenizer", ""};
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
    return inputs;
  }
  Fields fields(const RecordOptions& options) const override;
  Recording record(Graph& graph, Use use, const RecordOptions& options) const override;

 private:
  // The decoder is the word table if config.json says so, unless the weights hold one that differs.
  bool find_whether_tied() const {
    const std::string decoder = std::string(kDecoder) + ".weight";
    if (!config_.tie_word_embeddings) return false;
    if (!source_.has_weights || !source_.has_weights(decoder)) return true;
    return source_.are_equal && source_.are_equal(decoder, word_table_name(), FileNames(kPrefix));
  }

  bool find_whether_biases_differ() const {
    const std::string decoders = std::string(kDecoder) + ".bias";
    return source_.has_weights && source_.has_weights(decoders) && source_.has_weights(kBias) && source_.are_equal &&
           !source_.are_equal(decoders, kBias, FileNames(kPrefix));
  }

  void record_masked_lm(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
                        Recording* recording) const;
  void record_pairs(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
                    Recording* recording) const;
  void record_label(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
                    Recording* recording) const;

  // Although config.json says that it is the word table.
  bool has_own_decoder() const { return config_.tie_word_embeddings && !decoder_is_tied_; }

  BertConfig config_;
  bool pretrains_ = false;
  std::optional<SequenceLabels> labels_;  // of the head kSequenceHead alone
  ModelSource source_;
  bool decoder_is_tied_;
  bool decoder_has_bias_;  // of its own
};

Fields Bert::fields(const RecordOptions& options) const {
  const Extent tokens = rows_of_stream(kTokens), masked = rows_of_stream(kMaskedTokens),
               read = rows_of_stream(kReadTokens);
  Fields fields = {
      {"token_ids", DType::kInt32, tokens, 1, FieldSource::kTokenIds},
      {"position_ids", DType::kInt32, tokens, 1, FieldSource::kPositionIds},
      {"token_types", DType::kInt32, tokens, 1, FieldSource::kTokenTypes},
      {"text_offsets", DType::kInt32, {kSamples, 1, 1}, 1, FieldSource::kTextOffsets},
  };
  const Fields of_masks = {
      {"selected_rows", DType::kInt32, masked, 1, FieldSource::kMaskedRows},
      {"labels", DType::kInt32, masked, 1, FieldSource::kMaskedLabels},
      {"read_rows", DType::kInt32, read, 1, FieldSource::kReadRows},
      {"read_offsets", DType::kInt32, {kSamples, 1, 1}, 1, FieldSource::kReadOffsets},
      {"masked_among_read", DType::kInt32, masked, 1, FieldSource::kMaskedAmongRead},
  };
  if (labels_) {
    fields.push_back(label_field(*labels_));
  } else {
    fields.insert(fields.end(), of_masks.begin(), of_masks.end());
  }
  if (pretrains_)
    fields.push_back({"next_sentence_labels", DType::kInt32, rows_per_sample(1), 1, FieldSource::kClassLabels});
  if (options.dropout) {
    fields.push_back({"text_row_keys", DType::kInt64, tokens, 1, FieldSource::kTextRowKeys});
    if (!labels_) fields.push_back({"read_row_keys", DType::kInt64, read, 1, FieldSource::kReadRowKeys});
    fields.push_back({"sample_keys", DType::kInt64, rows_per_sample(1), 1, FieldSource::kSampleKeys});
  }
  return fields;
}

void Bert::record_masked_lm(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
                            Recording* recording) const {
  Graph& graph = r.graph;
  graph.set_scope("cls.predictions");
  const Tensor rows =
      gather_rows(graph, "selected", last.x, graph.field(last.rows.are_picked ? "masked_among_read" : "selected_rows"));
  const std::string transform = "cls.predictions.transform.";
  const Tensor h = activation(graph, transform + "act", dense(r, transform + "dense", rows, config_.hidden_size),
                              config_.hidden_act);
  const Tensor normed = norm(r, transform + "LayerNorm", h, config_.layer_norm_eps);
  const bool is_tied = decoder_is_tied_;
  const Tensor weight =
      is_tied ? word_table(r)
              : r.weight(std::string(kDecoder) + ".weight", config_.vocab_size, config_.hidden_size, r.deviation);
  const Tensor bias = r.bias(decoder_has_bias_ ? std::string(kDecoder) + ".bias" : kBias, config_.vocab_size);
  const Tensor logits = linear(graph, "logits", normed, weight, bias);
  const ClassLoss loss = cross_entropy_loss(graph, logits, graph.field("labels"), options.label_smoothing);
  recording->losses.push_back({pretrains_ ? "masked_lm_loss" : "loss", loss.loss, kMaskedTokens});
  recording->outputs.push_back({"hits", loss.hits});
  if (use == Use::kReference) graph.keep(logits);
  if (options.predictions) {
    const ClassPredictions predictions = class_predictions(graph, logits, graph.field("labels"), loss);
    recording->outputs.push_back({"predicted", predictions.classes});
    recording->outputs.push_back({"predicted_probabilities", predictions.class_probabilities});
    recording->outputs.push_back({"probabilities", predictions.probabilities});
  }
  recording->reference.push_back({pretrains_ ? "prediction_logits" : "logits", {logits}, ReferenceRows::kTokens});
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
  BertRecorder r(graph, config_, options);
  RowStream last{record_embeddings(r), r.rows()};
  const LayerRows read = use == Use::kReference ? LayerRows::kAll : labels_ ? LayerRows::kFirst : LayerRows::kRead;
  for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i)
    last = record_layer(r, i, last, i + 1 == config_.num_hidden_layers ? read : LayerRows::kAll);
  if (use == Use::kReference) graph.keep(last.x);
  Recording recording;
  if (use == Use::kReference) recording.reference.push_back({"last_hidden_state", {last.x}, ReferenceRows::kTokens});
  if (labels_) {
    record_label(r, last, use, options, &recording);
    return recording;
  }
  record_masked_lm(r, last, use, options, &recording);
  if (pretrains_) record_pairs(r, last, use, options, &recording);
  return recording;
}

std::vector<FamilyHead> heads() {
  FamilyHead masked, pretraining;
  masked.words.name = kMaskedLmHead;
  masked.words.has_classes = true;
  masked.judge = "masked_tokens";
  masked.command = "fill";
  pretraining.words.name = kPretrainingHead;
  pretraining.words.reads_labels = pretraining.words.has_classes = pretraining.words.reads_pairs = true;
  pretraining.loss_terms = 2;
  pretraining.judge = "pretraining";
  return {masked, pretraining, sequence_classification_head()};
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
  for (const char* const head : {kMaskedLmHead, kPretrainingHead})
    models.push_back(std::make_unique<Bert>(config, head));
  SequenceLabels classes, values;
  classes.outputs = 3;
  values.outputs = 1;
  values.are_values = true;
  for (const SequenceLabels& labels : {classes, values}) models.push_back(std::make_unique<Bert>(config, labels));
  return models;
}

std::unique_ptr<Model> open_bert(const ModelSource& source, const std::string& head) {
  if (head != kMaskedLmHead && head != kPretrainingHead && head != kSequenceHead) {
    refuse_config(source.config_path, "unknown head \"" + head + "\"",
                  std::string("BERT has ") + kMaskedLmHead + ", " + kPretrainingHead + " and " + kSequenceHead);
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
