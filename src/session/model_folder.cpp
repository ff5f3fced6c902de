// SPDX-License-Identifier: Apache-2.0
#include "src/session/model_folder.h"

#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/json/json.h"

namespace bascule {
namespace {

// The names of models, tokenizers and the rest: {"unet": ["diffusers", "UNet2DConditionModel"], ...}.
Json read_index(const std::string& path) {
  if (!std::filesystem::exists(path)) {
    throw Error(ErrorKind::kData, path, "is missing: the folder holds no pipeline of several models",
                "name a folder that Diffusers saved");
  }
  Json index = read_json_file(path);
  if (!index.is_object()) throw Error(ErrorKind::kData, path, "is not a JSON object");
  return index;
}

}  // namespace

ModelSource model_source(const std::string& folder, bool reads_weights, const WeightsStem& stem) {
  const auto names = std::make_shared<std::optional<std::set<std::string>>>();  // and no file stays open
  const auto has = [=](const std::string& tensor) {
    if (!reads_weights) return false;
    if (!*names) {
      const TensorSource source = open_hf_weights(folder, stem);
      names->emplace();
      for (const StoredTensor& stored : source.tensors()) (*names)->insert(stored.name);
    }
    return (*names)->count(tensor) > 0;
  };
  const auto equal = [=](const std::string& a, const std::string& b, const FileNames& file_names) {
    return are_equal(open_hf_weights(folder, stem), a, b, file_names);
  };
  return {folder + "/config.json", has, equal};
}

SentenceFolder sentence_folder_of(const std::string& folder, const Family& family, const std::string& head) {
  const std::unique_ptr<Model> model = family.open(model_source(body_folder(folder), false), head);
  return read_sentence_folder(folder, model->embedding_width(), model->inputs().texts[0]);
}

std::vector<Part> open_parts(const std::string& folder, const std::vector<WantedPart>& wanted) {
  require_model_folder(folder);
  const std::string path = folder + "/model_index.json";
  const Json index = read_index(path);
  std::vector<Part> parts;
  for (const auto& [name, head, stem] : wanted) {
    // A part that a pipeline does without is listed as [null, null].
    if (!index.contains(name) || !index[name].is_array() || index[name].size() != 2 || index[name][1].is_null())
      throw Error(ErrorKind::kData, path, "has no \"" + name + "\", which the model needs");
    Part part;
    part.name = name;
    part.folder = folder + "/" + name;
    part.stem = stem;
    const ModelSource source = model_source(part.folder, true, stem);
    part.family = &family_of_part(source.config_path);
    if (head != kBareModel && part.family->head(head) == nullptr) {
      throw Error(
          ErrorKind::kData, source.config_path,
          std::string("a ") + part.family->model_type + " model cannot be the \"" + name + "\" of this pipeline");
    }
    part.model = part.family->open(source, head);
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace bascule
