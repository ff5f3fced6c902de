// SPDX-License-Identifier: Apache-2.0
// A finished model that labels texts, planned for a batch of them. The constructor seals.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/ask/asked_text.h"
#include "src/models/model.h"
#include "src/runtime/threads.h"
#include "src/session/session.h"

namespace bascule {

class TextClassifier {
 public:
  // For up to `batch` texts of up to `longest` tokens. second_type: the token type of a pair's second text. The model
  // outlives this. Throws Error kData about the folder's weights.
  TextClassifier(const std::string& folder, const Model& model, std::int32_t second_type, std::int64_t batch,
                 std::int64_t longest);

  // The logits, valid until the next call: (texts, outputs), or where words have tags (tokens of all texts, outputs),
  // one text behind the other. Throws Error kData if one is not finite.
  const float* run(const std::vector<EncodedText>& texts);

 private:
  const std::string folder_;
  const ModelInputs inputs_;
  const std::int32_t second_type_;
  const Fields fields_;
  Session session_;
  Threads threads_;
  Tensor logits_;
};

}  // namespace bascule
