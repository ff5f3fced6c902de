// SPDX-License-Identifier: Apache-2.0
// ViT and DeiT as models: the patches of a picture behind class rows, layers, and classifiers. A family is constants
// that say where they differ. Before the seal.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/models/families.h"
#include "src/models/vit_config.h"

namespace bascule {

// A family with one of its heads.
struct ViTVariant {
  const char *kind, *body;  // "ViT"; "vit", which is also the family's tag on model cards
  const char* architecture;
  const char* processor;                // Hugging Face class
  std::vector<std::string> class_rows;  // tensors of the body's embeddings; none: the mean of the patches is classified
  std::vector<std::string> classifiers;  // each reads the class row of its number; the logits are the mean of theirs
  ModelCode code = {};

  std::string prefix() const { return std::string(body) + "."; }
  std::int64_t class_row_count() const { return static_cast<std::int64_t>(class_rows.size()); }
};

class ViTModel final : public Model {
 public:
  // The variant outlives this.
  ViTModel(const ViTVariant& variant, const ViTConfig& config);
  // file_side: image_size of config.json, which the source's position table is for.
  ViTModel(const ViTVariant& variant, const ViTConfig& config, const ModelSource& source, std::int64_t file_side);

  const char* architecture() const override { return variant_.architecture; }
  const char* body_prefix() const override { return prefix_.c_str(); }
  FileNames file_names() const override;
  bool may_be_fresh(const std::string& tensor) const override;
  bool depends_on_classes(const std::string& tensor) const override { return may_be_fresh(tensor); }
  ModelCode code() const override { return variant_.code; }
  void complete_config(Json* config) const override;
  std::vector<std::string> notes() const override;
  TensorChange change_of(const std::string& tensor, const std::vector<std::int64_t>& shape) const override;
  std::vector<ParameterPiece> unused_tensors() const override { return {}; }
  ModelCardWords card() const override;
  ModelInputs inputs() const override;
  Fields fields(const RecordOptions& options) const override;
  Recording record(Graph& graph, Use use, const RecordOptions& options) const override;

 private:
  std::int64_t grid() const { return config_.image_size / config_.patch_size; }  // patches a side
  bool is_pooled() const { return variant_.class_rows.empty(); }
  std::int64_t height_of(const RecordOptions& options) const {
    return options.height > 0 ? options.height : config_.image_size;
  }
  std::int64_t width_of(const RecordOptions& options) const {
    return options.width > 0 ? options.width : config_.image_size;
  }

  const ViTVariant& variant_;
  std::string prefix_;
  ViTConfig config_;
  std::int64_t file_grid_ = 0;
  bool has_new_classes_ = false, has_new_side_ = false, drops_class_row_ = false, resizes_table_ = false;
};

// Family::open of the variant: the config.json, with the side of the source's pictures.
std::unique_ptr<Model> open_vit_model(const ViTVariant& variant, const ModelSource& source);

// A head of such a family, and the family.
FamilyHead picture_head(const char* name, const ViTVariant& variant);
Family picture_family(const ViTVariant& variant, std::vector<FamilyHead> heads, PictureFit fit,
                      decltype(Family::open) open, decltype(Family::small_models) small_models);

// Of a small model: rates of dropout, which the published files set to 0; heads that fill no vector register.
ViTConfig small_vit_config();

}  // namespace bascule
