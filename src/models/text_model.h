// SPDX-License-Identifier: Apache-2.0
// BERT, RoBERTa and DistilBERT as models: a body, and one of the heads for texts behind it. A family is a constant that
// says where they differ. Before the seal.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/models/families.h"
#include "src/models/text_heads.h"

namespace bascule {

// Family::heads. classes: what their Hugging Face classes begin with, "Bert".
std::vector<FamilyHead> text_heads(const std::string& classes);

struct TextFamily {
  const Family& family;
  const char* kind;  // in messages and on model cards: "BERT"

  BertConfig (*read_config)(const std::string& path);  // throws Error kData naming the file and the key
  BertVariant (*variant)(const BertConfig& config);
  BodyParts body;
  MaskedWordNames masked_words;
  SequenceLayers sequence;
  // Other names in files. untied: where the decoder is not the word table although config.json says so.
  Span<const NameChange> names = {}, untied_names = {};
};

class TextModel final : public Model {
 public:
  // The family outlives this.
  TextModel(const TextFamily& family, const BertConfig& config, std::unique_ptr<TextHead> head);
  // labels: of kSequenceHead and kTokenHead; source: of kMaskedWordsHead and kEmbeddingHead. Those are the heads.
  TextModel(const TextFamily& family, const BertConfig& config, const std::string& head,
            const ClassifierLabels& labels = {}, const ModelSource& source = {});

  const char* architecture() const override { return family_.family.head(head_->name())->architecture.c_str(); }
  const char* body_prefix() const override { return prefix_.c_str(); }
  FileNames file_names() const override;
  bool may_be_fresh(const std::string& tensor) const override;
  bool depends_on_classes(const std::string& tensor) const override { return head_->depends_on_classes(tensor); }
  std::vector<ParameterPiece> unused_tensors() const override { return head_->unused_tensors(); }
  void complete_config(Json* config) const override { head_->complete_config(config); }
  std::vector<std::string> notes() const override { return head_->notes(); }
  ModelCardWords card() const override;
  ModelInputs inputs() const override;
  std::vector<Use> uses() const override;
  std::int64_t embedding_width() const override { return head_->embeds_texts() ? config_.hidden_size : 0; }
  Fields fields(const RecordOptions& options) const override;
  Recording record(Graph& graph, Use use, const RecordOptions& options) const override;

 private:
  const TextFamily& family_;
  BertConfig config_;
  BertVariant variant_;
  std::string prefix_;
  std::unique_ptr<TextHead> head_;
};

// Family::open. Throws Error kData for a head that is none of these.
std::unique_ptr<Model> open_text_model(const TextFamily& family, const ModelSource& source, const std::string& head);

// Family::small_models: the sizes of a small model, but for those of its tables; and one with each of the four heads.
BertConfig small_text_config(BertConfig config);
std::vector<std::unique_ptr<Model>> small_text_models(const TextFamily& family, const BertConfig& config,
                                                      const ModelSource& embeddings);
ModelSource small_embeddings(Pooling pooling, bool normalize, std::int64_t texts_in_a_row, EmbeddingLoss loss);
inline ClassifierLabels small_labels(std::int64_t outputs) { return {{}, outputs}; }

}  // namespace bascule
