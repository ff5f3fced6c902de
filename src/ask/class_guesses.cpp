// SPDX-License-Identifier: Apache-2.0
#include "src/ask/class_guesses.h"

#include "src/ask/logits.h"
#include "src/json/json.h"

namespace bascule {

std::vector<std::string> class_names(const std::string& folder, std::int64_t classes) {
  const std::string path = folder + "/config.json";
  const Json json = read_json_file(path);
  const Json* const names = find_member(json, "id2label", path);
  std::vector<std::string> texts;
  for (std::int64_t id = 0; id < classes; ++id) {
    const std::string number = std::to_string(id);
    texts.push_back(names == nullptr ? number : get_string(*names, number.c_str(), path, number));
  }
  return texts;
}

std::vector<ClassGuess> class_guesses(const float* logits, const std::vector<std::string>& names, std::size_t top) {
  std::vector<ClassGuess> best;
  for (const TokenOrClass& one : most_probable(logits, static_cast<std::int64_t>(names.size()), top))
    best.push_back({names[static_cast<std::size_t>(one.id)], one.probability});
  return best;
}

Json guesses_json(const std::vector<ClassGuess>& guesses) {
  Json labels = Json::array();
  for (const ClassGuess& guess : guesses)
    labels.push_back({{"label", guess.label}, {"probability", guess.probability}});
  return labels;
}

}  // namespace bascule
