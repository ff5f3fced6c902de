// SPDX-License-Identifier: Apache-2.0
// Reads the rules for pictures of a model folder, from processor_config.json or preprocessor_config.json, and makes the
// latter for a folder that has neither. Before the seal.
//
// With Preprocessing::kProcessor a run gives the pixels of the model's image processor in Transformers (torchvision
// back end), or refuses the file, naming the key. Accepted are `do_rescale`, `rescale_factor`, `image_mean`,
// `image_std` and, of a processor that crops, `size`, a shortest edge; `crop_size`, the model's image_size;
// `size_divisor`; `do_resize`; of one that stretches, `size`, the model's image_size, or with `do_center_crop` a larger
// one of which `crop_size`, the model's image_size, is kept; and `resample`, bilinear or bicubic. Keys that the
// processor itself ignores are ignored here.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/picture_fit.h"
#include "src/loader/media.h"
#include "src/settings/settings.h"

namespace bascule {

struct PictureRules {
  double mean[3] = {0.48145466, 0.4578275, 0.40821073};  // CLIP's, Transformers' default
  double std[3] = {0.26862954, 0.26130258, 0.27577711};
  ProcessorRules processor;  // kProcessor alone
};

// image_processor: the class that the model has; fit: what it does. Defaults, at image_side,
// where the folder has neither file. Throws
// Error kData for a malformed file, and with kProcessor for one that asks for other pixels than are given here. With
// kTraining mean and std alone are used, and a file is refused that does not normalise, or scales levels otherwise.
PictureRules read_picture_rules(const std::string& folder, Preprocessing preprocessing, std::int64_t image_side,
                                const std::string& image_processor, PictureFit fit);

// The file that counts: Transformers loads its image processor from it. Empty: there is none.
std::string processor_file_of(const std::string& folder);

// For models that have no defaults: throws Error kData where there is no such file, or image_mean or image_std is not
// in it.
void require_statistics(const std::string& folder);
// Whether the class `image_processor`, which stretches, makes pictures of image_side by that file. Throws Error kData.
bool makes_squares(const std::string& folder, std::int64_t image_side, const std::string& image_processor,
                   PictureFit fit);

// That file's processor, made so, as the text of a preprocessor_config.json.
std::string square_processor_text(const std::string& folder, std::int64_t image_side,
                                  const std::string& image_processor, PictureFit fit);

// The text of a preprocessor_config.json by which Transformers does what a run does for a folder that says nothing.
std::string default_processor_text(std::int64_t image_side, const std::string& image_processor);

}  // namespace bascule
