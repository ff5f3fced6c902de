// SPDX-License-Identifier: Apache-2.0
// BERT as a family: masked language modelling. Equations: Transformers' modeling_bert.py.
#include <algorithm>

#include "src/models/bert_config.h"
#include "src/models/config_values.h"
#include "src/models/families.h"
#include "src/models/recorder.h"

namespace bascule {
namespace {

constexpr char kHead[] = "masked_lm", kBody[] = "bert", kPrefix[] = "bert.";
constexpr char kDecoder[] = "cls.predictions.decoder", kBias[] = "cls.predictions.bias";
constexpr int kTokens = kFirstModelStream;            // of the packed texts
constexpr int kMaskedTokens = kFirstModelStream + 1;  // those that are predicted

struct BertRecorder : Recorder {
  BertRecorder(Graph& to, const BertConfig& its_config, const RecordOptions& options)
      : Recorder{to, {}, its_config.initializer_range, options.dropout}, config(its_config) {
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

Tensor record_layer(BertRecorder& r, std::int64_t i, Tensor x) {
  const std::string name = std::string(kPrefix) + "encoder.layer." + std::to_string(i);
  r.graph.set_scope(name);
  const RowStream stream{x, r.rows()};
  return feed_forward_block(r, name, r.layer,
                            {attention_block(r, name + ".attention", r.layer, stream, stream), stream.rows});
}

class Bert final : public Model {
 public:
  explicit Bert(const BertConfig& config, ModelSource source = {})
      : config_(config), source_(std::move(source)), decoder_is_tied_(find_whether_tied()) {}

  const char* architecture() const override { return "BertForMaskedLM"; }
  const char* body_prefix() const override { return kPrefix; }
  FileNames file_names() const override {
    // Files that were converted from the original code.
    static constexpr NameChange kChanges[] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                              {"LayerNorm.bias", "LayerNorm.beta"}};
    return {kPrefix, kChanges};
  }
  bool may_be_fresh(const std::string& tensor) const override { return tensor.rfind("cls.", 0) == 0; }
  // Where the decoder is not tied it has a bias of its own.
  std::vector<ParameterPiece> unused_tensors() const override {
    if (decoder_is_tied_) return {};
    ParameterPiece bias;
    bias.name = kBias;
    bias.shape = {config_.vocab_size};
    bias.elements = config_.vocab_size;
    return {bias};
  }
  ModelCardWords card() const override { return {"BERT", {"bert", "fill-mask"}, "fill-mask", "AutoTokenizer", ""}; }

  ModelInputs inputs() const override {
    ModelInputs inputs;
    inputs.vocabulary_size = config_.vocab_size;
    inputs.max_positions = config_.max_position_embeddings;
    inputs.token_types = config_.type_vocab_size;
    return inputs;
  }
  Fields fields(const RecordOptions& options) const override;
  Recording record(Graph& graph, const RecordOptions& options) const override;

 private:
  // The decoder is the word table if config.json says so, unless the weights hold one that differs.
  bool find_whether_tied() const {
    const std::string decoder = std::string(kDecoder) + ".weight";
    if (!config_.tie_word_embeddings) return false;
    if (!source_.has_weights || !source_.has_weights(decoder)) return true;
    return source_.are_equal && source_.are_equal(decoder, word_table_name(), file_names());
  }

  BertConfig config_;
  ModelSource source_;
  bool decoder_is_tied_;
};

Fields Bert::fields(const RecordOptions& options) const {
  const Extent tokens = rows_of_stream(kTokens), masked = rows_of_stream(kMaskedTokens);
  Fields fields = {
      {"token_ids", DType::kInt32, tokens, 1, FieldSource::kTokenIds},
      {"position_ids", DType::kInt32, tokens, 1, FieldSource::kPositionIds},
      {"token_types", DType::kInt32, tokens, 1, FieldSource::kTokenTypes},
      {"text_offsets", DType::kInt32, {kSamples, 1, 1}, 1, FieldSource::kTextOffsets},
      {"selected_rows", DType::kInt32, masked, 1, FieldSource::kMaskedRows},
      {"labels", DType::kInt32, masked, 1, FieldSource::kMaskedLabels},
  };
  if (options.dropout) {
    fields.push_back({"text_row_keys", DType::kInt64, tokens, 1, FieldSource::kTextRowKeys});
    fields.push_back({"sample_keys", DType::kInt64, rows_per_sample(1), 1, FieldSource::kSampleKeys});
  }
  return fields;
}

Recording Bert::record(Graph& graph, const RecordOptions& options) const {
  BertRecorder r(graph, config_, options);
  Tensor x = record_embeddings(r);
  for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) x = record_layer(r, i, x);
  graph.set_scope("cls.predictions");
  const Tensor rows = gather_rows(graph, "selected", x, graph.field("selected_rows"));
  const std::string transform = "cls.predictions.transform.";
  const Tensor h = activation(graph, transform + "act", dense(r, transform + "dense", rows, config_.hidden_size),
                              config_.hidden_act);
  const Tensor normed = norm(r, transform + "LayerNorm", h, config_.layer_norm_eps);
  const bool is_tied = decoder_is_tied_;
  const Tensor weight =
      is_tied ? word_table(r)
              : r.weight(std::string(kDecoder) + ".weight", config_.vocab_size, config_.hidden_size, r.deviation);
  const Tensor bias = r.bias(is_tied ? kBias : std::string(kDecoder) + ".bias", config_.vocab_size);
  const Tensor logits = linear(graph, "logits", normed, weight, bias);
  const ClassLoss loss = cross_entropy_loss(graph, logits, graph.field("labels"), options.label_smoothing);
  Recording recording;
  recording.loss = loss.loss;
  recording.loss_stream = kMaskedTokens;
  recording.outputs = {{"loss", loss.loss}, {"hits", loss.hits}};
  if (options.every_output) {
    graph.keep(x);
    graph.keep(logits);
  }
  if (options.predictions) {
    const ClassPredictions predictions = class_predictions(graph, logits, graph.field("labels"), loss);
    recording.outputs.push_back({"predicted", predictions.classes});
    recording.outputs.push_back({"probabilities", predictions.probabilities});
  }
  recording.reference = {{"last_hidden_state", {x}, ReferenceRows::kTokens},
                         {"logits", {logits}, ReferenceRows::kTokens},
                         {"loss", {loss.loss}}};
  return recording;
}

FamilyHead head() {
  FamilyHead head;
  head.words.name = kHead;
  head.words.has_classes = true;
  head.judge = "masked_tokens";
  return head;
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
  models.push_back(std::make_unique<Bert>(config));
  return models;
}

std::unique_ptr<Model> open_bert(const ModelSource& source, const std::string& head) {
  if (head != kHead)
    refuse_config(source.config_path, "unknown head \"" + head + "\"", "BERT has " + std::string(kHead));
  return std::make_unique<Bert>(read_bert_config(source.config_path), source);
}

}  // namespace

extern const Family kBert;
const Family kBert = {
    "bert", "",          {head()}, {kBody}, {}, open_bert, [](const std::string&) { return "BertForMaskedLM"; },
    {},     small_models};

}  // namespace bascule
