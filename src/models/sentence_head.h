// SPDX-License-Identifier: Apache-2.0
// The head that makes a vector of each text, with which BERT and its relatives embed texts. Before the seal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/models/text_heads.h"

namespace bascule {

inline constexpr char kEmbeddingHead[] = "sentence_embedding";
FamilyHead embedding_head();

// A text's vector is the mean of its rows, the first one, or the largest number of each column, of length 1 where the
// model says so. The texts of a row of data go through the body as one stream of rows, sample by sample; the loss
// compares their cosines. Source: sentence-transformers.
class EmbeddingHead final : public TextHead {
 public:
  // body_prefix: what the names of the body's tensors begin with in files that have it.
  EmbeddingHead(const ModelSource& source, std::int64_t width, const std::string& body_prefix);

  const char* name() const override { return kEmbeddingHead; }
  const char* task() const override { return "sentence-similarity"; }
  LayerRows rows() const override { return pooling_ == Pooling::kCls ? LayerRows::kFirst : LayerRows::kAll; }
  Fields fields(const RecordOptions& options) const override;
  void set_inputs(ModelInputs* inputs) const override;
  // The pooler, where the file has it: nothing reads it.
  std::vector<ParameterPiece> unused_tensors() const override { return pooler_; }
  bool embeds_texts() const override { return true; }
  std::int64_t texts_in_a_row(const RecordOptions& options) const override {
    return options.texts_in_a_row > 0 ? options.texts_in_a_row : texts_in_a_row_;
  }
  void record(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
              Recording* recording) const override;
  void record_loss(Graph& graph, const RecordOptions& options, Recording* recording) const override;

 private:
  bool reads_labels() const { return loss_ == EmbeddingLoss::kCosent || loss_ == EmbeddingLoss::kCosineSimilarity; }
  Tensor pooled(BertRecorder& r, const RowStream& last) const;
  void add_loss(Graph& graph, Tensor embeddings, std::int64_t texts, Recording* recording) const;

  std::int64_t width_;
  Pooling pooling_;
  bool normalizes_;
  std::int64_t texts_in_a_row_;
  EmbeddingLoss loss_;
  float scale_;
  std::vector<ParameterPiece> pooler_;
};

}  // namespace bascule
