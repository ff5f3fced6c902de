// SPDX-License-Identifier: Apache-2.0
// DeiT as a family: a ViT that has learnt from a teacher, with a distillation token behind the class token. Fine-tuned
// without the teacher: by the class token, or by both tokens, each with the classifier of its own.
#include "src/models/vit_model.h"

namespace bascule {

extern const Family kDeiT;

namespace {

constexpr char kHead[] = "image_classification", kTeacherHead[] = "image_classification_with_teacher";
constexpr char kKind[] = "DeiT", kBody[] = "deit", kProcessor[] = "DeiTImageProcessor";
constexpr char kClassRow[] = "cls_token", kDistillationRow[] = "distillation_token";

const ViTVariant kPlain = {
    kKind, kBody, "DeiTForImageClassification", kProcessor, {kClassRow, kDistillationRow}, {"classifier"}};
const ViTVariant kWithTeacher = {kKind,
                                 kBody,
                                 "DeiTForImageClassificationWithTeacher",
                                 kProcessor,
                                 {kClassRow, kDistillationRow},
                                 {"cls_classifier", "distillation_classifier"}};

std::unique_ptr<Model> open(const ModelSource& source, const std::string& head) {
  if (kDeiT.head(head) == nullptr) refuse_head(kDeiT, kKind, head, source.config_path);
  return open_vit_model(head == kHead ? kPlain : kWithTeacher, source);
}

std::vector<std::unique_ptr<Model>> small_models() {
  std::vector<std::unique_ptr<Model>> models;
  for (const ViTVariant* variant : {&kPlain, &kWithTeacher})
    models.push_back(std::make_unique<ViTModel>(*variant, small_vit_config()));
  return models;
}

}  // namespace

const Family kDeiT = picture_family(kPlain, {picture_head(kHead, kPlain), picture_head(kTeacherHead, kWithTeacher)},
                                    PictureFit::kStretchAndCrop, open, small_models);

}  // namespace bascule
