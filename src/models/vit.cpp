// SPDX-License-Identifier: Apache-2.0
// ViT as a family: image classification, by the class token or by the mean of the patches.
#include "src/models/vit_model.h"

namespace bascule {

extern const Family kViT;

namespace {

constexpr char kViTHead[] = "image_classification", kViTKind[] = "ViT", kViTBody[] = "vit",
               kViTProcessor[] = "ViTImageProcessor";

const ViTVariant kViTWithToken = {kViTKind,      kViTBody,      "ViTForImageClassification",
                                  kViTProcessor, {"cls_token"}, {"classifier"}};
const ViTVariant kViTPooled = {kViTKind,
                               kViTBody,
                               kPooledViTClass,
                               kViTProcessor,
                               {},
                               {"classifier"},
                               {kPooledViTFile, kPooledViTCode, kPooledViTAutoClass}};

const ViTVariant& variant_of(const ViTConfig& config) {
  return config.classifier == ViTClassifier::kPooled ? kViTPooled : kViTWithToken;
}

std::unique_ptr<Model> open_vit(const ModelSource& source, const std::string& head) {
  if (head != kViTHead) refuse_head(kViT, kViTKind, head, source.config_path);
  return open_vit_model(variant_of(read_vit_config(source.config_path)), source);
}

// Both classifiers.
std::vector<std::unique_ptr<Model>> small_vit_models() {
  ViTConfig pooled = small_vit_config();
  pooled.qkv_bias = false;
  pooled.hidden_act = Activation::kRelu;
  std::vector<std::unique_ptr<Model>> models;
  models.push_back(std::make_unique<ViTModel>(kViTWithToken, small_vit_config()));
  models.push_back(std::make_unique<ViTModel>(kViTPooled, pooled));
  return models;
}

}  // namespace

const Family kViT = picture_family(kViTWithToken, {picture_head(kViTHead, kViTWithToken)}, PictureFit::kStretch,
                                   open_vit, small_vit_models);

}  // namespace bascule
