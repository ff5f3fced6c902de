// SPDX-License-Identifier: Apache-2.0
// The heads with which BERT and its relatives classify: a text gets one label, or each word of it a tag such as
// "B-PER". Before the seal.
#pragma once

#include <cstdint>
#include <string>

#include "src/models/class_labels.h"
#include "src/models/families.h"
#include "src/models/text_head.h"

namespace bascule {

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
  Fields fields() const override;
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
  Fields fields() const override;
  void set_inputs(ModelInputs* inputs) const override;
  bool depends_on_classes(const std::string& tensor) const override;
  void complete_config(Json* config) const override { write_token_labels(tags_, config); }
  void record(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
              Recording* recording) const override;

 private:
  ClassifierLabels tags_;
};

}  // namespace bascule
