// SPDX-License-Identifier: Apache-2.0
#include "src/models/text_heads.h"

#include "src/base/check.h"

namespace bascule {
namespace {

bool find_whether_they_differ(const std::string& a, const std::string& b, const BertVariant& variant,
                              const ModelSource& source) {
  return source.has_weights && source.has_weights(a) && source.has_weights(b) && source.are_equal &&
         !source.are_equal(a, b, FileNames(variant.prefix()));
}

TiedDecoder decoder_of(const MaskedWordNames& names, const BertConfig& config, const BertVariant& variant,
                       const ModelSource& source) {
  const std::string prefix = variant.prefix();
  FileNames files(prefix);
  add_tied_words(&files, names, config, variant);
  return {config.tie_word_embeddings, source, std::string(names.decoder) + ".weight", files};
}

}  // namespace

void add_tied_words(FileNames* files, const MaskedWordNames& names, const BertConfig& config,
                    const BertVariant& variant) {
  files->table = word_table_name(variant);
  if (config.tie_word_embeddings) files->tied = {std::string(names.decoder) + ".weight"};
}

FamilyHead masked_words_head() {
  FamilyHead head;
  head.words.name = kMaskedWordsHead;
  head.words.has_classes = true;
  head.judge = "masked_tokens";
  head.command = "fill";
  return head;
}

MaskedWords::MaskedWords(const MaskedWordNames& names, const BertConfig& config, const BertVariant& variant,
                         const ModelSource& source)
    : names_(names), vocabulary_size_(config.vocab_size), decoder_(decoder_of(names, config, variant, source)) {
  const std::string decoders = std::string(names.decoder) + ".bias";
  const bool reads_decoders =
      names.bias == nullptr || !decoder_.is_tied() || find_whether_they_differ(decoders, names.bias, variant, source);
  bias_ = reads_decoders ? decoders : names.bias;
}

Fields MaskedWords::fields(const RecordOptions&) const {
  const Extent masked = rows_of_stream(kMaskedStream);
  return {{"selected_rows", DType::kInt32, masked, 1, FieldSource::kMaskedRows},
          {"labels", DType::kInt32, masked, 1, FieldSource::kMaskedLabels},
          {"masked_among_read", DType::kInt32, masked, 1, FieldSource::kMaskedAmongRead}};
}

std::vector<ParameterPiece> MaskedWords::unused_tensors() const {
  if (names_.bias == nullptr || bias_ == names_.bias) return {};
  ParameterPiece bias;
  bias.name = names_.bias;
  bias.shape = {vocabulary_size_};
  bias.elements = vocabulary_size_;
  return {bias};
}

void MaskedWords::record(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
                         Recording* recording) const {
  Graph& graph = r.graph;
  const std::int64_t width = r.config.hidden_size;
  graph.set_scope(names_.scope);
  const Tensor rows =
      gather_rows(graph, "selected", last.x, graph.field(last.rows.are_picked ? "masked_among_read" : "selected_rows"));
  const Tensor h =
      activation(graph, std::string(names_.dense) + ".act", dense(r, names_.dense, rows, width), r.config.head_act);
  const Tensor normed = norm(r, names_.norm, h, r.config.layer_norm_eps);
  const Tensor weight = decoder_.is_tied()
                            ? word_table(r)
                            : r.weight(std::string(names_.decoder) + ".weight", vocabulary_size_, width, r.deviation);
  const Tensor logits = linear(graph, "logits", normed, weight, r.bias(bias_, vocabulary_size_));
  const ClassLoss loss = cross_entropy_loss(graph, logits, graph.field("labels"), options.label_smoothing);
  recording->losses.push_back({names_.loss, loss.loss, kMaskedStream});
  recording->outputs.push_back({"hits", loss.hits});
  if (use == Use::kReference) graph.keep(logits);
  if (options.predictions) {
    const ClassPredictions predictions = class_predictions(graph, logits, graph.field("labels"), loss);
    recording->outputs.push_back({"predicted", predictions.classes});
    recording->outputs.push_back({"predicted_probabilities", predictions.class_probabilities});
    recording->outputs.push_back({"probabilities", predictions.probabilities});
  }
  recording->reference.push_back({names_.logits, {logits}, ReferenceRows::kTokens});
}

namespace {

bool is_of_layer(const std::string& tensor, const std::string& layer) { return tensor.rfind(layer + ".", 0) == 0; }

FamilyHead classifying_head(const char* name, const char* judge) {
  FamilyHead head;
  head.words.name = name;
  head.words.reads_labels = head.words.has_classes = true;
  head.judge = judge;
  head.names_classes = true;
  head.command = "classify";
  return head;
}

void set_classes(const ClassifierLabels& labels, ModelInputs* inputs) {
  inputs->classes = labels.outputs;
  inputs->class_names = labels.names;
  inputs->has_values = labels.are_values;
}

}  // namespace

FamilyHead sequence_classification_head() {
  FamilyHead head = classifying_head(kSequenceHead, "sequence_classes");
  head.words.reads_pairs = true;
  head.judge_of_values = "sequence_values";
  return head;
}

FamilyHead token_classification_head() {
  FamilyHead head = classifying_head(kTokenHead, "token_tags");
  head.words.reads_words = true;
  return head;
}

Fields SequenceHead::fields(const RecordOptions&) const {
  if (labels_.are_values) return {{"labels", DType::kFloat32, rows_per_sample(1), 1, FieldSource::kLabelValues}};
  return {{"labels", DType::kInt32, rows_per_sample(1), 1, FieldSource::kClassLabels}};
}

void SequenceHead::set_inputs(ModelInputs* inputs) const {
  inputs->reads_pairs = inputs->pairs_are_optional = true;
  set_classes(labels_, inputs);
}

bool SequenceHead::depends_on_classes(const std::string& tensor) const { return is_of_layer(tensor, layers_.output); }

void SequenceHead::record(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
                          Recording* recording) const {
  Graph& graph = r.graph;
  const Tensor logits = layers_.logits(r, last, labels_.outputs, use, recording);
  const Tensor labels = graph.field("labels");
  graph.keep(logits);
  recording->outputs.push_back({"logits", logits});
  recording->reference.push_back({"logits", {logits}});
  if (labels_.are_values) {
    recording->losses.push_back({"loss", squared_error_loss(graph, logits, labels), kSamples});
    return;
  }
  const ClassLoss loss = cross_entropy_loss(graph, logits, labels, options.label_smoothing);
  recording->losses.push_back({"loss", loss.loss, kSamples});
  recording->outputs.push_back({"hits", loss.hits});
}

Fields TokenHead::fields(const RecordOptions&) const {
  const Extent tagged = rows_of_stream(kTaggedStream);
  return {{"labelled_rows", DType::kInt32, tagged, 1, FieldSource::kLabelledRows},
          {"labels", DType::kInt32, tagged, 1, FieldSource::kTokenLabels},
          {"label_words", DType::kInt32, tagged, 1, FieldSource::kLabelledWords}};
}

void TokenHead::set_inputs(ModelInputs* inputs) const {
  inputs->reads_words = true;
  set_classes(tags_, inputs);
}

bool TokenHead::depends_on_classes(const std::string& tensor) const { return is_of_layer(tensor, kClassifier); }

// The logits of all rows cost little, and gathering them moves less than gathering the rows.
void TokenHead::record(BertRecorder& r, const RowStream& last, Use /*use*/, const RecordOptions& options,
                       Recording* recording) const {
  Graph& graph = r.graph;
  const std::string name = kClassifier;
  graph.set_scope(name);
  const Tensor dropped =
      dropout(graph, name + ".dropout", last.x, r.drop(r.config.tag_dropout), r.keys("text_row_keys"));
  const Tensor all = dense(r, name, dropped, tags_.outputs);
  const Tensor logits = gather_rows(graph, "logits", all, graph.field("labelled_rows"));
  graph.keep(logits);
  const ClassLoss loss = cross_entropy_loss(graph, logits, graph.field("labels"), options.label_smoothing);
  recording->losses.push_back({"loss", loss.loss, kTaggedStream});
  recording->outputs.push_back({"logits", logits});
  recording->outputs.push_back({"hits", loss.hits});
  recording->reference.push_back({"logits", {logits}, ReferenceRows::kTokens});
}

namespace {

constexpr char kLabels[] = "labels";

}  // namespace

FamilyHead embedding_head() {
  FamilyHead head;
  head.words.name = kEmbeddingHead;
  head.words.reads_labels = head.words.uses_negatives = head.words.reads_pairs = head.words.embeds_texts = true;
  head.judge = "sentence_retrieval";
  head.command = "embed";
  head.judge_of_values = "sentence_similarity";
  return head;
}

EmbeddingHead::EmbeddingHead(const ModelSource& source, std::int64_t width, const std::string& body_prefix)
    : width_(width),
      pooling_(source.pooling),
      normalizes_(source.normalize),
      texts_in_a_row_(source.texts_in_a_row),
      loss_(source.loss),
      scale_(source.similarity_scale) {
  const std::string pooler = "pooler.dense.";
  const auto has = [&](const std::string& tensor) { return source.has_weights && source.has_weights(tensor); };
  if (!has(pooler + "weight") && !has(body_prefix + pooler + "weight")) return;
  pooler_ = {piece(pooler + "weight", {width, width}, 0, {}), piece(pooler + "bias", {width}, 0, {})};
}

Fields EmbeddingHead::fields(const RecordOptions& options) const {
  if (texts_in_a_row(options) == 1 || !reads_labels()) return {};
  return {{kLabels, DType::kFloat32, rows_per_sample(1), 1, FieldSource::kLabelValues}};
}

void EmbeddingHead::set_inputs(ModelInputs* inputs) const {
  inputs->texts_in_a_row = texts_in_a_row_;
  inputs->has_values = texts_in_a_row_ > 1 && reads_labels();
}

Tensor EmbeddingHead::pooled(BertRecorder& r, const RowStream& last) const {
  const std::string name = normalizes_ ? std::string(kSentenceEmbedding) + ".pooled" : kSentenceEmbedding;
  switch (pooling_) {
    case Pooling::kMean: return mean_rows(r.graph, name, last.x, last.rows);
    case Pooling::kMax: return max_rows(r.graph, name, last.x, last.rows);
    case Pooling::kCls: break;
  }
  return first_rows_of(r, name, last);
}

void EmbeddingHead::add_loss(Graph& graph, Tensor embeddings, std::int64_t texts, Recording* recording) const {
  const auto of_scores = [&] {
    BASCULE_CHECK(texts == 2);
    const Tensor cosines = pair_cosines(graph, "cosines", embeddings), labels = graph.field(kLabels);
    return loss_ == EmbeddingLoss::kCosent ? cosent_loss(graph, cosines, labels, scale_)
                                           : squared_error_loss(graph, cosines, labels);
  };
  const Tensor loss = reads_labels()
                          ? of_scores()
                          : ranking_loss(graph, embeddings, texts, scale_, loss_ == EmbeddingLoss::kSymmetricRanking);
  recording->losses.push_back({"loss", loss, kSamples});
  if (graph.bounds()[kSamplesOfAllRanks] > 0) recording->gathered_cols = texts * width_;
}

void EmbeddingHead::record_loss(Graph& graph, const RecordOptions& options, Recording* recording) const {
  graph.set_scope(kEmbeddingHead);
  const std::int64_t texts = texts_in_a_row(options);
  const Tensor embeddings = graph.input(kSentenceEmbedding, rows_per_sample(texts), width_);
  graph.keep(embeddings);
  recording->outputs.push_back({kSentenceEmbedding, embeddings});
  add_loss(graph, embeddings, texts, recording);
}

void EmbeddingHead::record(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
                           Recording* recording) const {
  Graph& graph = r.graph;
  graph.set_scope(kEmbeddingHead);
  const Tensor of_rows = pooled(r, last);
  const Tensor embeddings = normalizes_ ? normalize(graph, kSentenceEmbedding, of_rows) : of_rows;
  graph.keep(embeddings);
  recording->outputs.push_back({kSentenceEmbedding, embeddings});
  const std::int64_t texts = texts_in_a_row(options);
  if (use == Use::kEmbedText || texts == 1) return;
  if (use == Use::kTrainPiece) {
    const Tensor gradients = graph.input(kEmbeddingGradients, graph[embeddings].rows, width_);
    recording->outputs.push_back({kEmbeddingGradients, gradients});
    cotangent_loss(graph, {{embeddings, gradients}});
    return;
  }
  add_loss(graph, embeddings, texts, recording);
  // The reference has tensors of their own for each column.
  recording->reference.clear();
  for (int column = 0; column < static_cast<int>(texts); ++column) {
    const std::string name = "text" + std::to_string(column) + ".";
    recording->reference.push_back({name + "last_hidden_state", {last.x}, ReferenceRows::kTokens, 0, column});
    recording->reference.push_back({name + kSentenceEmbedding, {embeddings}, ReferenceRows::kAll, 0, column});
  }
}

}  // namespace bascule
