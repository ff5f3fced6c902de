// SPDX-License-Identifier: Apache-2.0
// Values of a Hugging Face config.json that several families have. All throw Error kData naming the file and the key.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/activation.h"
#include "src/json/json.h"

namespace bascule {

[[noreturn]] void refuse_config(const std::string& path, const std::string& what, const std::string& what_to_do = "");

// A positive integer, within a bound that keeps every product of extents far from overflow.
std::int64_t config_extent(const Json& object, const char* key, const std::string& path, std::int64_t fallback);
// In [0, 1).
float config_probability(const Json& object, const char* key, const std::string& path, double fallback);
// initializer_range, a standard deviation.
double config_initializer_range(const Json& object, const std::string& path, double fallback);
float config_epsilon(const Json& object, const std::string& path, double fallback);  // "layer_norm_eps"
Activation config_activation(const Json& object, const std::string& path);           // "hidden_act"

}  // namespace bascule
