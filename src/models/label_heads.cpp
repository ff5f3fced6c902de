// SPDX-License-Identifier: Apache-2.0
#include "src/models/label_heads.h"

namespace bascule {
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

Fields SequenceHead::fields() const {
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

Fields TokenHead::fields() const {
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

}  // namespace bascule
