// SPDX-License-Identifier: Apache-2.0
// DeiT as a family: a ViT that has learnt from a teacher, with a distillation token behind the class token. Fine-tuned
// without the teacher: by the class token, or by both tokens, each with the classifier of its own.
#include "src/models/vit_model.h"

namespace bascule {

extern const Family kDeiT;

namespace {

constexpr char kDeiTHead[] = "image_classification", kDeiTTeacherHead[] = "image_classification_with_teacher";
constexpr char kDeiTKind[] = "DeiT", kDeiTBody[] = "deit", kDeiTProcessor[] = "DeiTImageProcessor";
constexpr char kDeiTClassRow[] = "cls_token", kDeiTDistillationRow[] = "distillation_token";

const ViTVariant kDeiTPlain = {
    kDeiTKind,     kDeiTBody, "DeiTForImageClassification", kDeiTProcessor, {kDeiTClassRow, kDeiTDistillationRow},
    {"classifier"}};
const ViTVariant kDeiTWithTeacher = {kDeiTKind,
                                     kDeiTBody,
                                     "DeiTForImageClassificationWithTeacher",
                                     kDeiTProcessor,
                                     {kDeiTClassRow, kDeiTDistillationRow},
                                     {"cls_classifier", "distillation_classifier"}};

std::unique_ptr<Model> open_deit(const ModelSource& source, const std::string& head) {
  if (kDeiT.head(head) == nullptr) refuse_head(kDeiT, kDeiTKind, head, source.config_path);
  return open_vit_model(head == kDeiTHead ? kDeiTPlain : kDeiTWithTeacher, source);
}

std::vector<std::unique_ptr<Model>> small_deit_models() {
  std::vector<std::unique_ptr<Model>> models;
  for (const ViTVariant* variant : {&kDeiTPlain, &kDeiTWithTeacher})
    models.push_back(std::make_unique<ViTModel>(*variant, small_vit_config()));
  return models;
}

}  // namespace

const Family kDeiT =
    picture_family(kDeiTPlain, {picture_head(kDeiTHead, kDeiTPlain), picture_head(kDeiTTeacherHead, kDeiTWithTeacher)},
                   PictureFit::kStretchAndCrop, open_deit, small_deit_models);

}  // namespace bascule
