// SPDX-License-Identifier: Apache-2.0
#include "src/models/config_values.h"

#include <map>

#include "src/base/error.h"

namespace bascule {

void refuse_config(const std::string& path, const std::string& what, const std::string& what_to_do) {
  throw Error(ErrorKind::kData, path, what, what_to_do);
}

std::int64_t config_extent(const Json& object, const char* key, const std::string& path, std::int64_t fallback) {
  const Json* member = find_member(object, key, path);
  if (member != nullptr && member->is_array())
    refuse_config(path, std::string(key) + ": a list of sizes is not supported",
                  "Transformers fails on it too; give one number");
  const std::int64_t value = get_int(object, key, path, fallback);
  if (value < 1 || value > (1 << 24))
    refuse_config(path, std::string(key) + " = " + std::to_string(value) + " is out of range",
                  "1 to 16777216 is allowed");
  return value;
}

void read_config_extents(const Json& object, const std::string& path, std::initializer_list<ConfigExtent> extents) {
  for (const auto& [key, value] : extents) *value = config_extent(object, key, path, *value);
}

float config_probability(const Json& object, const char* key, const std::string& path, double fallback) {
  const double value = get_number(object, key, path, fallback);
  if (!(value >= 0.0 && value < 1.0))
    refuse_config(path, std::string(key) + " = " + json_text(Json(value)) + " must be at least 0 and less than 1");
  return static_cast<float>(value);
}

float config_epsilon(const Json& object, const std::string& path, double fallback, const char* key) {
  const double value = get_number(object, key, path, fallback);
  if (!(value > 0.0 && value < 1.0))
    refuse_config(path, std::string(key) + " = " + json_text(Json(value)) + " is out of range",
                  "it must be above 0 and less than 1");
  return static_cast<float>(value);
}

double config_factor(const Json& object, const char* key, const std::string& path, double fallback) {
  const double value = get_number(object, key, path, fallback);
  if (!(value >= 0.0 && value < 1e6))
    refuse_config(path, std::string(key) + " = " + json_text(Json(value)) + " is out of range",
                  "0 to 1000000 is allowed");
  return value;
}

Activation config_activation(const Json& object, const std::string& path) {
  const std::string name = get_string(object, "hidden_act", path, "gelu");
  return activation_of_name(name, "hidden_act", name, path);
}

Activation activation_of_name(const std::string& name, const char* key, const std::string& value,
                              const std::string& path) {
  static const std::map<std::string, Activation> kNames = {{"gelu", Activation::kGelu},
                                                           {"gelu_python", Activation::kGelu},
                                                           {"gelu_new", Activation::kGeluTanh},
                                                           {"gelu_pytorch_tanh", Activation::kGeluTanh},
                                                           {"gelu_fast", Activation::kGeluTanh},
                                                           {"gelu_accurate", Activation::kGeluTanh},
                                                           {"gelu_python_tanh", Activation::kGeluTanh},
                                                           {"quick_gelu", Activation::kQuickGelu},
                                                           {"relu", Activation::kRelu},
                                                           {"silu", Activation::kSilu},
                                                           {"swish", Activation::kSilu},
                                                           {"tanh", Activation::kTanh},
                                                           {"sigmoid", Activation::kSigmoid},
                                                           {"linear", Activation::kLinear}};
  const auto found = kNames.find(name);
  if (found != kNames.end()) return found->second;
  std::string known;
  for (const auto& entry : kNames) known += (known.empty() ? "" : ", ") + entry.first;
  refuse_config(path, std::string(key) + " = \"" + value + "\" is not supported", "supported: " + known);
}

void check_padding_token(std::int64_t pad_token_id, std::int64_t vocab_size, const std::string& path) {
  if (pad_token_id < 0 || pad_token_id >= vocab_size)
    refuse_config(path, "pad_token_id = " + std::to_string(pad_token_id) + " is outside the vocabulary");
}

void check_width_of_heads(std::int64_t hidden_size, std::int64_t num_attention_heads, const std::string& path,
                          const char* width_key, const char* heads_key) {
  if (hidden_size % num_attention_heads != 0)
    refuse_config(path, std::string(width_key) + " = " + std::to_string(hidden_size) + " is not a multiple of " +
                            heads_key + " = " + std::to_string(num_attention_heads));
}

void check_positions_are_absolute(const Json& object, const std::string& path) {
  const std::string kind = get_string(object, "position_embedding_type", path, "absolute");
  if (kind != "absolute")
    refuse_config(path, "position_embedding_type = \"" + kind + "\" is not supported", "only \"absolute\" is");
}

namespace {

constexpr std::int64_t kMostLabels = 65536;
constexpr char kRegression[] = "regression", kClassification[] = "single_label_classification";

}  // namespace

std::vector<std::string> class_names_of(const Json& json, const std::string& path) {
  const Json* const names = find_member(json, "id2label", path);
  const bool is_counted = find_member(json, "num_labels", path) != nullptr;
  const std::int64_t given = config_extent(json, "num_labels", path, 2);
  std::vector<std::string> labels;
  if (names == nullptr) {
    if (is_counted && given > kMostLabels)
      refuse_config(path, "num_labels = " + std::to_string(given),
                    "at most " + std::to_string(kMostLabels) + " classes are supported");
    for (std::int64_t id = 0; is_counted && id < given; ++id) labels.push_back("LABEL_" + std::to_string(id));
    return labels;
  }
  if (!names->is_object() || names->size() == 0)
    refuse_config(path, "id2label is not an object with a name for each class");
  const std::int64_t count = static_cast<std::int64_t>(names->size());
  if (count > kMostLabels)
    refuse_config(path, "id2label names " + std::to_string(count) + " classes",
                  "at most " + std::to_string(kMostLabels) + " are supported");
  for (std::int64_t id = 0; id < count; ++id) {
    const std::string number = std::to_string(id);
    if (names->find(number) == nullptr)
      refuse_config(path, "id2label names " + count_of(count, "class") + ", but none is \"" + number + "\"",
                    "classes are numbered from 0 on");
    labels.push_back(get_string(*names, number.c_str(), path, number));
  }
  if (is_counted && given != count)
    refuse_config(path, "num_labels = " + std::to_string(given) + ", but id2label names " + count_of(count, "class"));
  return labels;
}

void write_class_names(const std::vector<std::string>& names, Json* config) {
  Json by_number = Json::object(), numbers = Json::object();
  for (std::size_t id = 0; id < names.size(); ++id) {
    by_number[std::to_string(id)] = names[id];
    numbers[names[id]] = static_cast<std::int64_t>(id);
  }
  (*config)["id2label"] = by_number;
  (*config)["label2id"] = numbers;
  if (config->contains("num_labels")) (*config)["num_labels"] = static_cast<std::int64_t>(names.size());
}

ClassifierLabels read_sequence_labels(const std::string& path, const ModelSource& source) {
  const Json json = read_json_file(path);
  ClassifierLabels labels;
  labels.names = class_names_of(json, path);
  const std::string count = std::to_string(labels.names.size());
  const bool has_one = labels.names.size() == 1;
  // Transformers writes null where nothing is decided yet.
  const Json* const given = find_member(json, "problem_type", path);
  const std::string problem = given == nullptr || given->is_null()
                                  ? (has_one ? kRegression : kClassification)
                                  : get_string(json, "problem_type", path, kClassification);
  if (problem != kRegression && problem != kClassification)
    refuse_config(path, "problem_type = \"" + problem + "\" is not supported",
                  "one label a text is: \"" + std::string(kClassification) + "\" or \"" + kRegression + "\"");
  labels.are_values = problem == kRegression;
  if (labels.are_values && !has_one)
    refuse_config(path,
                  "problem_type = \"regression\", but there are " + (labels.names.empty() ? "2" : count) + " labels",
                  "only one is supported");
  if (!labels.are_values && has_one) refuse_config(path, "the model has one class", "a classifier needs two or more");
  if (source.has_values && !labels.are_values) labels.are_new = labels.are_values = true;
  if (!source.classes.empty()) {
    labels.names = source.classes;
    labels.are_new = true;
    labels.are_values = false;
  }
  if (labels.are_values) labels.names.clear();
  labels.outputs = labels.are_values ? 1 : labels.names.empty() ? 2 : static_cast<std::int64_t>(labels.names.size());
  return labels;
}

void write_sequence_labels(const ClassifierLabels& labels, Json* config) {
  (*config)["problem_type"] = labels.are_values ? kRegression : kClassification;
  if (labels.are_new) write_class_names(labels.are_values ? std::vector<std::string>{"LABEL_0"} : labels.names, config);
}

ClassifierLabels read_token_labels(const std::string& path, const ModelSource& source) {
  ClassifierLabels labels;
  labels.are_new = !source.classes.empty();
  labels.names = labels.are_new ? source.classes : class_names_of(read_json_file(path), path);
  if (!labels.names.empty()) labels.outputs = static_cast<std::int64_t>(labels.names.size());
  return labels;
}

void write_token_labels(const ClassifierLabels& labels, Json* config) {
  if (labels.are_new) write_class_names(labels.names, config);
}

}  // namespace bascule
