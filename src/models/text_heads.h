// SPDX-License-Identifier: Apache-2.0
// The heads of BERT and its relatives: masked words, labels, and vectors of texts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/models/bert_body.h"
#include "src/models/config_values.h"
#include "src/models/families.h"
#include "src/models/model.h"
#include "src/models/recorder.h"

namespace bascule {

// A head of BERT and its relatives: the layers behind their body with the loss, the fields that these read of a batch,
// and the head's part in a folder. TextModel (text_model.h) joins it with a body. Before the seal.

class TextHead {
 public:
  virtual ~TextHead() = default;

  virtual const char* name() const = 0;                           // as model.head
  virtual const char* task() const = 0;                           // as the model card's pipeline_tag: "fill-mask"
  virtual LayerRows rows() const = 0;                             // those of the body's last layer that it reads
  virtual Fields fields(const RecordOptions& options) const = 0;  // beside those of the body
  virtual void set_inputs(ModelInputs*) const {}

  // As the functions of Model with these names.
  virtual bool depends_on_classes(const std::string& /*tensor*/) const { return false; }
  virtual std::vector<ParameterPiece> unused_tensors() const { return {}; }
  virtual void complete_config(Json*) const {}
  virtual std::vector<std::string> notes() const { return {}; }
  // Its decoder is not the word table although config.json says so.
  virtual bool has_own_decoder() const { return false; }
  // It makes vectors of texts and has no tensors: the model is the body alone (BertVariant::has_prefix).
  virtual bool embeds_texts() const { return false; }
  virtual std::int64_t texts_in_a_row(const RecordOptions&) const { return 1; }

  // Adds its operations to the graph, and its loss, outputs and reference to the recording. last: of record_body(),
  // with rows() or, for the reference, all rows.
  virtual void record(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
                      Recording* recording) const = 0;
  // Of a head that embeds texts: Use::kTrainLoss.
  virtual void record_loss(Graph& /*graph*/, const RecordOptions&, Recording*) const {}
};

// The head with which BERT and its relatives predict masked tokens: decoder(norm(act(dense(row)))) of the rows that
// have a label. The decoder is the word table where config.json ties them, unless the weights hold another one. Before
// the seal.

struct MaskedWordNames {
  // Tensors in files.
  const char* scope;           // of its operations
  const char *dense, *norm;    // each with .weight and .bias
  const char* decoder;         // with .weight where it is not the word table, and .bias
  const char* bias = nullptr;  // the bias of a decoder that is the word table; null: the decoder's, tied or not
  // Results, in the reference and in the records of a run.
  const char *loss = "loss", *logits = "logits";
};

// The word table, and the decoder of this head where config.json ties them: also for the other heads' files.
void add_tied_words(FileNames* files, const MaskedWordNames& names, const BertConfig& config,
                    const BertVariant& variant);

// The name of the head, and what settings and commands know of it.
inline constexpr char kMaskedWordsHead[] = "masked_lm";
FamilyHead masked_words_head();

class MaskedWords : public TextHead {
 public:
  // The names outlive this.
  MaskedWords(const MaskedWordNames& names, const BertConfig& config, const BertVariant& variant,
              const ModelSource& source);

  const char* name() const override { return kMaskedWordsHead; }
  const char* task() const override { return "fill-mask"; }
  LayerRows rows() const override { return LayerRows::kRead; }
  Fields fields(const RecordOptions& options) const override;
  // The reference adds the decoder's bias; where that is another tensor this one is not read.
  std::vector<ParameterPiece> unused_tensors() const override;
  void complete_config(Json* config) const override { decoder_.complete_config(config); }
  std::vector<std::string> notes() const override { return decoder_.notes(); }
  bool has_own_decoder() const override { return decoder_.is_own(); }
  void record(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
              Recording* recording) const override;

 private:
  const MaskedWordNames& names_;
  std::int64_t vocabulary_size_;
  TiedDecoder decoder_;
  std::string bias_;  // the one that is read
};

// The heads with which BERT and its relatives classify: a text gets one label, or each word of it a tag such as
// "B-PER". Before the seal.

inline constexpr char kSequenceHead[] = "sequence_classification", kTokenHead[] = "token_classification";
inline constexpr char kClassifier[] = "classifier";  // what the names of their tensors begin with

FamilyHead sequence_classification_head();
FamilyHead token_classification_head();

// A family's layers between the first row of each text and the logits of its label.
struct SequenceLayers {
  // The logits, (samples, outputs). Adds to the recording what else the reference compares.
  Tensor (*logits)(BertRecorder& r, const RowStream& last, std::int64_t outputs, Use use, Recording* recording);
  const char* output;  // the last layer, whose values mean nothing for other classes
};

// The loss is the mean cross entropy, or squared error where labels are values, over texts.
class SequenceHead final : public TextHead {
 public:
  SequenceHead(const ClassifierLabels& labels, const SequenceLayers& layers) : labels_(labels), layers_(layers) {}

  const char* name() const override { return kSequenceHead; }
  const char* task() const override { return "text-classification"; }
  LayerRows rows() const override { return LayerRows::kFirst; }
  Fields fields(const RecordOptions& options) const override;
  void set_inputs(ModelInputs* inputs) const override;
  bool depends_on_classes(const std::string& tensor) const override;
  void complete_config(Json* config) const override { write_sequence_labels(labels_, config); }
  void record(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
              Recording* recording) const override;

 private:
  ClassifierLabels labels_;
  SequenceLayers layers_;
};

// classifier(dropout(row)) of every row; the loss is the mean cross entropy over the rows that have a tag.
class TokenHead final : public TextHead {
 public:
  explicit TokenHead(const ClassifierLabels& tags) : tags_(tags) {}

  const char* name() const override { return kTokenHead; }
  const char* task() const override { return "token-classification"; }
  LayerRows rows() const override { return LayerRows::kAll; }
  Fields fields(const RecordOptions& options) const override;
  void set_inputs(ModelInputs* inputs) const override;
  bool depends_on_classes(const std::string& tensor) const override;
  void complete_config(Json* config) const override { write_token_labels(tags_, config); }
  void record(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
              Recording* recording) const override;

 private:
  ClassifierLabels tags_;
};

// The head that makes a vector of each text, with which BERT and its relatives embed texts. Before the seal.

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
