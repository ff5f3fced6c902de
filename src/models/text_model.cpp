// SPDX-License-Identifier: Apache-2.0
#include "src/models/text_model.h"

#include <algorithm>
#include <utility>

namespace bascule {
namespace {

std::unique_ptr<TextHead> make_head(const TextFamily& family, const BertConfig& config, const std::string& head,
                                    const ClassifierLabels& labels, const ModelSource& source) {
  if (head == kSequenceHead) return std::make_unique<SequenceHead>(labels, family.sequence);
  if (head == kTokenHead) return std::make_unique<TokenHead>(labels);
  if (head == kEmbeddingHead)
    return std::make_unique<EmbeddingHead>(source, config.hidden_size, family.variant(config).prefix());
  return std::make_unique<MaskedWords>(family.masked_words, config, family.variant(config), source);
}

}  // namespace

std::vector<FamilyHead> text_heads(const std::string& classes) {
  std::vector<FamilyHead> heads = {masked_words_head(), sequence_classification_head(), token_classification_head(),
                                   embedding_head()};
  heads[0].architecture = classes + "ForMaskedLM";
  heads[1].architecture = classes + "ForSequenceClassification";
  heads[2].architecture = classes + "ForTokenClassification";
  heads[3].architecture = classes + "Model";
  return heads;
}

TextModel::TextModel(const TextFamily& family, const BertConfig& config, std::unique_ptr<TextHead> head)
    : family_(family),
      config_(config),
      variant_(family.variant(config)),
      prefix_(variant_.prefix()),
      head_(std::move(head)) {
  variant_.has_prefix = !head_->embeds_texts();
}

TextModel::TextModel(const TextFamily& family, const BertConfig& config, const std::string& head,
                     const ClassifierLabels& labels, const ModelSource& source)
    : TextModel(family, config, make_head(family, config, head, labels, source)) {}

FileNames TextModel::file_names() const {
  FileNames names(prefix_);
  names.changes = head_->has_own_decoder() ? family_.untied_names : family_.names;
  add_tied_words(&names, family_.masked_words, config_, variant_);
  return names;
}

// The pooler is part of the heads that read the first row alone.
bool TextModel::may_be_fresh(const std::string& tensor) const {
  if (head_->embeds_texts()) return false;
  return tensor.rfind(prefix_, 0) != 0 || tensor.rfind(prefix_ + "pooler.", 0) == 0;
}

ModelCardWords TextModel::card() const {
  ModelCardWords words = {family_.kind, {family_.family.model_type, head_->task()}, head_->task(), "AutoTokenizer", ""};
  if (head_->embeds_texts()) {
    words.library = "sentence-transformers";
    words.tags.insert(words.tags.begin(), {words.library, "feature-extraction"});
  }
  return words;
}

ModelInputs TextModel::inputs() const {
  ModelInputs inputs;
  TextShape& text = inputs.texts[0];
  text.vocabulary_size = config_.vocab_size;
  text.max_positions = config_.max_position_embeddings;
  text.positions = variant_.positions;
  text.token_types =
      variant_.reads_types ? config_.type_vocab_size : std::min<std::int64_t>(config_.type_vocab_size, 1);
  head_->set_inputs(&inputs);
  return inputs;
}

std::vector<Use> TextModel::uses() const {
  std::vector<Use> uses = Model::uses();
  if (head_->embeds_texts()) uses.insert(uses.end(), {Use::kTrainPiece, Use::kTrainLoss, Use::kEmbedText});
  return uses;
}

Fields TextModel::fields(const RecordOptions& options) const {
  return bert_fields(variant_, options, head_->rows(), head_->fields(options), head_->texts_in_a_row(options));
}

Recording TextModel::record(Graph& graph, Use use, const RecordOptions& options) const {
  Recording recording;
  if (use == Use::kTrainLoss) {
    head_->record_loss(graph, options, &recording);
    return recording;
  }
  BertRecorder r(graph, config_, variant_, options);
  r.texts_in_a_row = head_->texts_in_a_row(options);
  const RowStream last = record_body(r, family_.body, use, head_->rows(), &recording);
  head_->record(r, last, use, options, &recording);
  return recording;
}

std::unique_ptr<Model> open_text_model(const TextFamily& family, const ModelSource& source, const std::string& head) {
  const std::string& path = source.config_path;
  if (family.family.head(head) == nullptr) refuse_head(family.family, family.kind, head, path);
  const BertConfig config = family.read_config(path);
  ClassifierLabels labels;
  if (head == kSequenceHead) labels = read_sequence_labels(path, source);
  if (head == kTokenHead) labels = read_token_labels(path, source);
  return std::make_unique<TextModel>(family, config, head, labels, source);
}

BertConfig small_text_config(BertConfig config) {
  config.hidden_size = 36;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 3;
  config.intermediate_size = 50;
  return config;
}

std::vector<std::unique_ptr<Model>> small_text_models(const TextFamily& family, const BertConfig& config,
                                                      const ModelSource& embeddings) {
  std::vector<std::unique_ptr<Model>> models;
  models.push_back(std::make_unique<TextModel>(family, config, kMaskedWordsHead));
  models.push_back(std::make_unique<TextModel>(family, config, kSequenceHead, small_labels(2)));
  models.push_back(std::make_unique<TextModel>(family, config, kTokenHead, small_labels(5)));
  models.push_back(std::make_unique<TextModel>(family, config, kEmbeddingHead, ClassifierLabels{}, embeddings));
  return models;
}

ModelSource small_embeddings(Pooling pooling, bool normalize, std::int64_t texts_in_a_row, EmbeddingLoss loss) {
  ModelSource source;
  source.pooling = pooling;
  source.normalize = normalize;
  source.texts_in_a_row = texts_in_a_row;
  source.loss = loss;
  return source;
}

}  // namespace bascule
