// SPDX-License-Identifier: Apache-2.0
// What config.json says of the labels of a classifier: the names of its classes, and whether labels are values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/json/json.h"
#include "src/models/model.h"

namespace bascule {

// id2label has a name for each class; without it, num_labels counts them. Empty: the file has neither. Throws Error
// kData naming the file and the key.
std::vector<std::string> class_names_of(const Json& json, const std::string& path);
// Puts them into a config.json.
void write_class_names(const std::vector<std::string>& names, Json* config);

// Those of a text, or the tags of its words.
struct ClassifierLabels {
  std::vector<std::string> names;  // of classes by number; empty: there are values, or config.json says nothing
  std::int64_t outputs = 2;        // of the classifier: the number of classes, or 1
  bool are_values = false;         // the loss is a squared error
  bool are_new = false;            // config.json has others
};

// One label a text: those of a config.json (problem_type, or one label: a value), or the source's where it names some.
// Throws Error kData.
ClassifierLabels read_sequence_labels(const std::string& path, const ModelSource& source);
void write_sequence_labels(const ClassifierLabels& labels, Json* config);
// Tags: those of a config.json, or the source's where it names some. Throws Error kData.
ClassifierLabels read_token_labels(const std::string& path, const ModelSource& source);
void write_token_labels(const ClassifierLabels& labels, Json* config);

}  // namespace bascule
