// SPDX-License-Identifier: Apache-2.0
// What preprocessor_config.json (or processor_config.json) of a model folder says about pictures. Before the seal.
#pragma once

#include <string>

namespace bascule {

struct PictureStatistics {
  double mean[3] = {0.48145466, 0.4578275, 0.40821073};  // CLIP's, Transformers' default
  double std[3] = {0.26862954, 0.26130258, 0.27577711};
};

// Defaults where the folder has neither file. Throws Error kData for a malformed one.
PictureStatistics read_picture_statistics(const std::string& folder);

}  // namespace bascule
