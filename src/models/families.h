// SPDX-License-Identifier: Apache-2.0
// The model families: their name in config.json, the values that settings may have with them, and how to open one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/base/picture_fit.h"
#include "src/models/model.h"
#include "src/settings/settings.h"

namespace bascule {

struct FamilyHead {
  HeadWords words;
  const char* judge = "";         // of src/judge/judge.h
  std::string architecture = {};  // the Hugging Face class of a model with it
  // The command that asks a finished model of this head: "search" (Use::kEmbedText and kEmbedPicture),
  // "classify" or "fill" (Recording::reference has "logits"), "embed" (kEmbedText), "generate" (kEncode and kDecode);
  // empty: none.
  std::string command = {};
  int loss_terms = 1;  // each a mean over rows of its own: LossTerm of model.h
  // Labels may be names, and the training data decides on the classes (ModelSource::classes).
  bool names_classes = false;
  // With names_classes: the judge where labels are values (ModelSource::has_values); empty: they are always classes.
  std::string judge_of_values = {};
  bool smooths_evaluation = true;  // training.label_smoothing_factor acts on losses of evaluations, as in Trainer
};

struct Family {
  const char* model_type;       // of config.json; where it has none, its _class_name
  const char* image_processor;  // Hugging Face class that prepares pictures; empty: none are read
  // model.head; the first is the default. None: the model is only a part of a pipeline (src/session/model_folder.h),
  // which is not trained.
  std::vector<FamilyHead> heads;
  std::vector<std::string> parts;   // model.freeze
  std::vector<std::string> frozen;  // its default
  // head: one of the heads, or kBareModel. Throws Error kData naming the file and the key.
  std::unique_ptr<Model> (*open)(const ModelSource& source, const std::string& head);
  std::vector<std::string> idle = {};  // those of `parts` that have no gradient
  // Made in memory for `bascule verify --bits`: small, with dropout, one for each head. Null: none.
  std::vector<std::unique_ptr<Model>> (*small_models)() = nullptr;
  // Whether a folder must have the processor's file: there are no defaults for mean and standard deviation.
  bool needs_processor_file = false;
  bool resizes_pictures = false;  // ModelSource::image_size
  PictureFit processor_fit = PictureFit::kShorterSide;

  // Null: there is none.
  const FamilyHead* head(const std::string& name) const;
};

// A family or head that this program does not have: nothing in the folder is damaged.
class UnknownFamily : public Error {
 public:
  UnknownFamily(const std::string& where, const std::string& what, const std::string& what_to_do)
      : Error(ErrorKind::kData, where, what, what_to_do) {}
};

// Refuses a head of a config.json that the family does not have. kind: the family in the message, "BERT". Throws
// UnknownFamily.
[[noreturn]] void refuse_head(const Family& family, const char* kind, const std::string& head,
                              const std::string& config_path);

// The head that is none: the body alone, without a loss.
inline constexpr char kBareModel[] = "base";

// In the order of the table.
const std::vector<const Family*>& families();
// By model_type or _class_name of a config.json. Throws UnknownFamily for one that is not known, and, unless a part of
// a pipeline is asked for, for a family that is only such a part; Error kData for a file that names none.
const Family& family_of(const std::string& config_path);
const Family& family_of_part(const std::string& config_path);
// The family of that file, opened.
std::unique_ptr<Model> open_model(const ModelSource& source, const std::string& head);

// The first in the table.
const Family& usual_family();

// A family from outside src/: before main's command runs. Kept by reference.
void add_family(const Family& family);

}  // namespace bascule
