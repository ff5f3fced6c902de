// SPDX-License-Identifier: Apache-2.0
#include "src/models/token_labels.h"

#include "src/models/class_labels.h"

namespace bascule {

TokenLabels read_token_labels(const std::string& path, const ModelSource& source) {
  TokenLabels labels;
  labels.are_new = !source.classes.empty();
  labels.names = labels.are_new ? source.classes : class_names_of(read_json_file(path), path);
  if (!labels.names.empty()) labels.outputs = static_cast<std::int64_t>(labels.names.size());
  return labels;
}

void write_token_labels(const TokenLabels& labels, Json* config) {
  if (labels.are_new) write_class_names(labels.names, config);
}

FamilyHead token_classification_head() {
  FamilyHead head;
  head.words.name = kTokenHead;
  head.words.reads_labels = head.words.has_classes = head.words.reads_words = true;
  head.judge = "token_tags";
  head.names_classes = true;
  head.command = "classify";
  return head;
}

void set_tag_inputs(const TokenLabels& labels, ModelInputs* inputs) {
  inputs->reads_words = true;
  inputs->classes = labels.outputs;
  inputs->class_names = labels.names;
}

ModelCardWords token_card(const char* kind, const char* tag) {
  return {kind, {tag, "token-classification"}, "token-classification", "AutoTokenizer", ""};
}

TokenLabels small_tags() {
  TokenLabels labels;
  labels.outputs = 5;
  return labels;
}

// The logits of all rows cost little, and gathering them moves less than gathering the rows.
void record_tags(BertRecorder& r, const char* classifier, float rate, const RowStream& last, const TokenLabels& labels,
                 const RecordOptions& options, Recording* recording) {
  Graph& graph = r.graph;
  graph.set_scope(classifier);
  const Tensor dropped =
      dropout(graph, std::string(classifier) + ".dropout", last.x, r.drop(rate), r.keys("text_row_keys"));
  const Tensor all = dense(r, classifier, dropped, labels.outputs);
  const Tensor logits = gather_rows(graph, "logits", all, graph.field("labelled_rows"));
  graph.keep(logits);
  const ClassLoss loss = cross_entropy_loss(graph, logits, graph.field("labels"), options.label_smoothing);
  recording->losses.push_back({"loss", loss.loss, kTaggedStream});
  recording->outputs.push_back({"logits", logits});
  recording->outputs.push_back({"hits", loss.hits});
  recording->reference.push_back({"logits", {logits}, ReferenceRows::kTokens});
}

}  // namespace bascule
