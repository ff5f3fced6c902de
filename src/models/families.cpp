// SPDX-License-Identifier: Apache-2.0
#include "src/models/families.h"

#include <algorithm>
#include <filesystem>

#include "src/base/error.h"
#include "src/base/model_folder.h"
#include "src/base/word_list.h"
#include "src/json/json.h"

namespace bascule {

extern const Family kBridgeTower, kViT, kBert, kRoberta, kDistilBert, kT5, kClipText, kUnet,
    kVaeDecoder;  // each in its own file

namespace {

std::vector<const Family*>& table() {
  static std::vector<const Family*> all = {&kBridgeTower, &kViT,      &kBert, &kRoberta,   &kDistilBert,
                                           &kT5,          &kClipText, &kUnet, &kVaeDecoder};
  return all;
}

// "a", "b" or "c": those that can be trained.
std::string known_types() {
  std::vector<std::string> known;
  for (const Family* family : table()) {
    if (!family->heads.empty()) known.push_back("\"" + std::string(family->model_type) + "\"");
  }
  return or_list(known);
}

}  // namespace

const std::vector<const Family*>& families() { return table(); }

const FamilyHead* Family::head(const std::string& name) const {
  const auto found =
      std::find_if(heads.begin(), heads.end(), [&](const FamilyHead& head) { return head.words.name == name; });
  return found == heads.end() ? nullptr : &*found;
}

void refuse_head(const Family& family, const char* kind, const std::string& head, const std::string& config_path) {
  std::vector<std::string> known;
  for (const FamilyHead& one : family.heads) known.push_back(one.words.name);
  throw UnknownFamily(config_path, "unknown head \"" + head + "\"", kind + std::string(" has ") + and_list(known));
}

const Family& usual_family() { return *families().front(); }

const Family& family_of(const std::string& config_path) {
  const Family& family = family_of_part(config_path);
  if (family.heads.empty()) {
    throw UnknownFamily(config_path,
                        std::string("a ") + family.model_type + " is a part of a pipeline and cannot be trained",
                        "only " + known_types() + " can be; `bascule draw` takes the pipeline's folder");
  }
  return family;
}

const Family& family_of_part(const std::string& config_path) {
  require_model_folder(std::filesystem::path(config_path).parent_path().string());
  const Json json = read_json_file(config_path);
  const std::string known = "only " + known_types() + " can be trained";
  if (!json.is_object()) throw Error(ErrorKind::kData, config_path, "is not a JSON object with a model_type", known);
  // Diffusers names the class of a part of a pipeline instead.
  const std::string of_class = get_string(json, "_class_name", config_path, "");
  const std::string type = get_string(json, "model_type", config_path, of_class);
  if (type.empty()) throw Error(ErrorKind::kData, config_path, "has no model_type", known);
  const auto found = std::find_if(families().begin(), families().end(),
                                  [&](const Family* family) { return type == family->model_type; });
  if (found == families().end()) throw UnknownFamily(config_path, "model_type = \"" + type + "\"", known);
  return **found;
}

std::unique_ptr<Model> open_model(const ModelSource& source, const std::string& head) {
  return family_of(source.config_path).open(source, head);
}

void add_family(const Family& family) { table().push_back(&family); }

}  // namespace bascule
