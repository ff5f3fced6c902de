// SPDX-License-Identifier: Apache-2.0
#include "src/models/families.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "src/base/paths.h"
#include "src/json/json.h"
#include "src/models/bridgetower.h"
#include "src/models/recorder.h"

namespace bascule {

extern const Family kBridgeTower, kViT, kDeiT, kBert, kRoberta, kDistilBert, kT5, kClipText, kUnet,
    kVaeDecoder;  // each in its own file

namespace {

std::vector<const Family*>& table() {
  static std::vector<const Family*> all = {&kBridgeTower, &kViT, &kDeiT,     &kBert, &kRoberta,
                                           &kDistilBert,  &kT5,  &kClipText, &kUnet, &kVaeDecoder};
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

// Tensors in a class's checkpoint that its head's forward pass does not read. Source:
// BridgeTowerModel.__init__.

namespace {

struct List {
  std::vector<ParameterPiece> pieces;
  void add(const std::string& name, std::vector<std::int64_t> shape, double deviation, float constant = 0.0f) {
    pieces.push_back(piece(name, std::move(shape), 0, {constant, static_cast<float>(deviation)}));
  }
  void dense(const std::string& name, std::int64_t out, std::int64_t in, double deviation) {
    add(name + ".weight", {out, in}, deviation);
    add(name + ".bias", {out}, 0.0);
  }
  void norm(const std::string& name, std::int64_t width) {
    add(name + ".weight", {width}, 0.0, 1.0f);
    add(name + ".bias", {width}, 0.0);
  }
};

void add_resblock(List* list, const std::string& name, const BridgeTowerConfig::Vision& vision) {
  const std::int64_t w = vision.hidden_size;
  const double width = static_cast<double>(w), f = vision.initializer_factor;
  const double out = f / std::sqrt(width) / std::sqrt(2.0 * static_cast<double>(vision.num_hidden_layers));
  list->add(name + ".attn.in_proj_weight", {3 * w, w}, f / std::sqrt(width));
  list->add(name + ".attn.in_proj_bias", {3 * w}, 0.0);
  list->dense(name + ".attn.out_proj", w, w, out);
  list->norm(name + ".ln_1", w);
  list->dense(name + ".mlp.c_fc", 4 * w, w, f / std::sqrt(2.0 * width));
  list->dense(name + ".mlp.c_proj", w, 4 * w, out);
  list->norm(name + ".ln_2", w);
}

void add_cross_layer(List* list, const std::string& name, const BridgeTowerConfig& config) {
  const std::int64_t d = config.hidden_size, f = config.text.intermediate_size;
  const double deviation = 0.05 * config.initializer_factor;
  for (const std::string& block : {name + ".attention", name + ".crossattention"}) {
    for (const char* part : {".self.query", ".self.key", ".self.value", ".output.dense"})
      list->dense(block + part, d, d, deviation);
    list->norm(block + ".output.LayerNorm", d);
  }
  list->dense(name + ".intermediate.dense", f, d, deviation);
  list->dense(name + ".output.dense", d, f, deviation);
  list->norm(name + ".output.LayerNorm", d);
}

}  // namespace

std::vector<ParameterPiece> unused_tensors(const BridgeTowerConfig& config, ModelHead head) {
  const std::string prefix = head == ModelHead::kBase ? "" : "bridgetower.";
  const std::int64_t d = config.hidden_size;
  const double deviation = 0.05 * config.initializer_factor;
  List list;
  list.dense(prefix + "text_model.pooler.dense", d, d, deviation);
  const std::string visual = prefix + "vision_model.visual.";
  for (std::int64_t i = config.text.num_hidden_layers; i < config.vision.blocks(); ++i) {
    add_resblock(&list, visual + "transformer.resblocks." + std::to_string(i), config.vision);
  }
  if (!config.vision.share_layernorm) {
    for (std::int64_t i = 0; i < config.vision.num_hidden_layers; ++i)
      list.norm(visual + "ln_separate." + std::to_string(i), config.vision.hidden_size);
  }
  if (config.share_link_tower_layers) {
    for (const char* modality : {"text", "image"}) {
      const std::string link = prefix + "cross_modal_" + modality + "_link_tower";
      list.norm(link + ".LayerNorm", d);
      if (config.link_tower_type == LinkTower::kScaledAdd) list.add(link + ".scaled_factor", {}, 0.0, 1.0f);
      if (config.link_tower_type == LinkTower::kInterpolate) list.add(link + ".beta", {}, 0.0, 0.5f);
    }
  }
  if (head == ModelHead::kMaskedLm) {
    add_cross_layer(&list, prefix + "cross_modal_image_layers." + std::to_string(config.num_hidden_layers - 1), config);
    for (const char* modality : {"text", "image"})
      list.dense(prefix + "cross_modal_" + modality + "_pooler.dense", d, d, deviation);
  }
  return list.pieces;
}

}  // namespace bascule
