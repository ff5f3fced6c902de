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

}  // namespace bascule
