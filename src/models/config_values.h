// SPDX-License-Identifier: Apache-2.0
// Values of a config.json that several families have, labels of classifiers among them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "kernels/activation.h"
#include "src/json/json.h"
#include "src/models/model.h"

namespace bascule {

// Values of a Hugging Face config.json that several families have. All throw Error kData naming the file and the key.

[[noreturn]] void refuse_config(const std::string& path, const std::string& what, const std::string& what_to_do = "");

// A positive integer, within a bound that keeps every product of extents far from overflow.
std::int64_t config_extent(const Json& object, const char* key, const std::string& path, std::int64_t fallback);
// Several, each with its value as the default.
struct ConfigExtent {
  const char* key;
  std::int64_t* value;
};
void read_config_extents(const Json& object, const std::string& path, std::initializer_list<ConfigExtent> extents);
// In [0, 1).
float config_probability(const Json& object, const char* key, const std::string& path, double fallback);
float config_epsilon(const Json& object, const std::string& path, double fallback, const char* key = "layer_norm_eps");
Activation config_activation(const Json& object, const std::string& path);  // "hidden_act"
// The activation of this name of Transformers, which stands in the key's value, whole or in part.
Activation activation_of_name(const std::string& name, const char* key, const std::string& value,
                              const std::string& path);
// "initializer_range", a standard deviation of fresh weights, or "initializer_factor", by which theirs are multiplied.
double config_factor(const Json& object, const char* key, const std::string& path, double fallback);

void check_padding_token(std::int64_t pad_token_id, std::int64_t vocab_size, const std::string& path);
void check_width_of_heads(std::int64_t hidden_size, std::int64_t num_attention_heads, const std::string& path,
                          const char* width_key = "hidden_size", const char* heads_key = "num_attention_heads");
void check_positions_are_absolute(const Json& object, const std::string& path);  // "position_embedding_type"

// The labels of a classifier in config.json: the names of its classes, and whether labels are values.

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
