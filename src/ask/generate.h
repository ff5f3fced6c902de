// SPDX-License-Identifier: Apache-2.0
// `bascule generate FOLDER "text"`: what a model that writes makes of texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/json/value.h"

namespace bascule {

struct GenerateArguments {
  std::string folder;              // a run's output_dir, or any folder with a model and its tokenizer
  std::vector<std::string> texts;  // "-" alone: the lines of standard input
  std::optional<std::string> prefix;
  // Keys of generation_config.json that the folder's do not count for.
  Json options = Json::object();
  std::int64_t batch = 8;
  std::int64_t max_source_length = 0;  // 0: the run's that made the folder, else 512
  std::string precision = "float32";   // or "bf16"
  bool json = false;
};

// Prints a line for each text, or one JSON document. Returns the exit code. Throws Error: kSettings for the arguments,
// kData for the folder and for texts that are not UTF-8. The texts before such a one are answered; a document then has
// their answers and the error, which is said, and its exit code returned.
int generate_command(const GenerateArguments& arguments);

}  // namespace bascule
