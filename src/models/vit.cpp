// SPDX-License-Identifier: Apache-2.0
// ViT as a family: image classification, by the class token or by the mean of the patches.
#include "src/models/vit_model.h"

namespace bascule {

extern const Family kViT;

namespace {

constexpr char kHead[] = "image_classification", kKind[] = "ViT", kBody[] = "vit", kProcessor[] = "ViTImageProcessor";

const ViTVariant kToken = {kKind, kBody, "ViTForImageClassification", kProcessor, {"cls_token"}, {"classifier"}};
const ViTVariant kPooled = {kKind,
                            kBody,
                            kPooledViTClass,
                            kProcessor,
                            {},
                            {"classifier"},
                            {kPooledViTFile, kPooledViTCode, kPooledViTAutoClass}};

const ViTVariant& variant_of(const ViTConfig& config) {
  return config.classifier == ViTClassifier::kPooled ? kPooled : kToken;
}

std::unique_ptr<Model> open(const ModelSource& source, const std::string& head) {
  if (head != kHead) refuse_head(kViT, kKind, head, source.config_path);
  return open_vit_model(variant_of(read_vit_config(source.config_path)), source);
}

// Both classifiers.
std::vector<std::unique_ptr<Model>> small_models() {
  ViTConfig pooled = small_vit_config();
  pooled.qkv_bias = false;
  pooled.hidden_act = Activation::kRelu;
  std::vector<std::unique_ptr<Model>> models;
  models.push_back(std::make_unique<ViTModel>(kToken, small_vit_config()));
  models.push_back(std::make_unique<ViTModel>(kPooled, pooled));
  return models;
}

}  // namespace

const Family kViT = picture_family(kToken, {picture_head(kHead, kToken)}, PictureFit::kStretch, open, small_models);

}  // namespace bascule
