// SPDX-License-Identifier: Apache-2.0
// Models as their folders hold them: one in a folder, or several, each in a folder of its own below that of a pipeline
// (model_index.json, as Diffusers saves it). Before the seal.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/checkpoint/hf_folder.h"
#include "src/models/families.h"
#include "src/models/sentence_folder.h"

namespace bascule {

// The source that a model is opened from: config.json of the folder, and its weights, whose names are read at the first
// question about them. reads_weights: false where fresh ones are made, so that those in the folder do not matter.
ModelSource model_source(const std::string& folder, bool reads_weights = true, const WeightsStem& stem = {});

// What a folder says of the vectors that its model makes of texts with this head. Reads no weights.
SentenceFolder sentence_folder_of(const std::string& folder, const Family& family, const std::string& head);

// One model of a pipeline.
struct Part {
  std::string name;  // "unet": the folder's, and what Graph::set_part() is told
  std::string folder;
  const Family* family = nullptr;
  std::unique_ptr<Model> model;
  WeightsStem stem = {};  // of its weights' files
};

struct WantedPart {
  std::string name, head;  // of the part, and of its family
  WeightsStem stem = {};
};
// In the order asked for. Throws Error kData where the pipeline's model_index.json is missing or lacks one of them, and
// where a part's folder is missing or of no known family.
std::vector<Part> open_parts(const std::string& folder, const std::vector<WantedPart>& wanted);

}  // namespace bascule
