// SPDX-License-Identifier: Apache-2.0
#include "src/models/recording.h"

#include <utility>

namespace bascule {

Recording recording_of(const BridgeTowerOutputs& outputs) {
  Recording recording;
  recording.loss = outputs.loss;
  recording.loss_stream = outputs.loss_stream;
  const std::pair<const char*, Tensor> all[] = {{"loss", outputs.loss},
                                                {"text_embeds", outputs.text_embeds},
                                                {"image_embeds", outputs.image_embeds},
                                                {"cross_embeds", outputs.cross_embeds},
                                                {"logits", outputs.logits},
                                                {"hits", outputs.hits},
                                                {"predicted", outputs.predicted},
                                                {"probabilities", outputs.probabilities}};
  for (const auto& [name, tensor] : all) {
    if (tensor) recording.outputs.push_back({name, tensor});
  }
  return recording;
}

const char* judge_of(ModelHead head) {
  switch (head) {
    case ModelHead::kImageTextMatching: return "matching";
    case ModelHead::kMaskedLm: return "masked_tokens";
    default: return "contrastive_retrieval";
  }
}

}  // namespace bascule
