// SPDX-License-Identifier: Apache-2.0
#include "src/models/class_labels.h"

#include "src/base/count_of.h"
#include "src/models/config_values.h"

namespace bascule {
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
