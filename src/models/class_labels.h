// SPDX-License-Identifier: Apache-2.0
// The labels of a classifier: what config.json says of them, and what every head has after its logits that gives a text
// one label, a class or a value. The layers before the logits are those of the model's family.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/graph/operations.h"
#include "src/json/json.h"
#include "src/models/families.h"

namespace bascule {

inline constexpr char kSequenceHead[] = "sequence_classification";

// id2label has a name for each class; without it, num_labels counts them. Empty: the file has neither. Throws Error
// kData naming the file and the key.
std::vector<std::string> class_names_of(const Json& json, const std::string& path);
// Puts them into a config.json.
void write_class_names(const std::vector<std::string>& names, Json* config);

// One label of a sequence.
struct SequenceLabels {
  std::vector<std::string> names;  // of classes by number; empty: there are values, or config.json says nothing
  std::int64_t outputs = 2;        // of the classifier: the number of classes, or 1
  bool are_values = false;         // the loss is a squared error
  bool are_new = false;            // config.json has others
};

// Those of a config.json (problem_type, or one label: a value), or the source's where it names some. Throws Error
// kData.
SequenceLabels read_sequence_labels(const std::string& path, const ModelSource& source);
void write_sequence_labels(const SequenceLabels& labels, Json* config);

// The model.head: its words and its judges.
FamilyHead sequence_classification_head();
void set_label_inputs(const SequenceLabels& labels, ModelInputs* inputs);
Field label_field(const SequenceLabels& labels);
// Adds the loss of the logits (samples, labels.outputs), and gives the judge what it reads.
void record_label_loss(Graph& graph, Tensor logits, const SequenceLabels& labels, const RecordOptions& options,
                       Recording* recording);

}  // namespace bascule
