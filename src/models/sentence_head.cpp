// SPDX-License-Identifier: Apache-2.0
#include "src/models/sentence_head.h"

#include "src/base/check.h"

namespace bascule {
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
