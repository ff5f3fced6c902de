// SPDX-License-Identifier: Apache-2.0
// A translator that the program does not know: an encoder of sources and a decoder of targets, two models in one
// pipeline's folder. The decoder predicts the masked tokens of a target from its other tokens and the source, as
// Mask-Predict (Ghazvininejad et al., 2019) does.
//
// It decodes a target token by token with a cache. kEncode writes the keys and values of a source; each kDecodeStep
// writes the row of one further token of the target, and reads those of the source and of all tokens so far:
//
//   source_position_ids ─> "decoder/source" ─┐
//   target token t ────────────────────────> row t of "decoder/written" ─> rows 0..t ─> logits of tokens 0..t
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/session/model_folder.h"

namespace bascule::test {

// Streams of the translator's batches: tokens of sources, tokens of targets, those of them that are predicted.
inline constexpr int kSourceTokens = kFirstModelStream, kTargetTokens = kFirstModelStream + 1,
                     kPredictedTokens = kFirstModelStream + 2;
inline constexpr std::uint8_t kSource = 0, kTarget = 1;  // the numbers of a sample's texts

// Uses that the product has no name for; no enumerator is that large. Both are of one sample at a time.
inline constexpr Use kEncode = static_cast<Use>(100), kDecodeStep = static_cast<Use>(101);

// The encoder and the decoder of a pipeline's folder, in this order.
std::vector<Part> open_translator(const std::string& folder);

// What both models read together, as the graph of a use has it: fields of the encoder, then of the decoder.
ModelInputs translator_inputs(const std::vector<Part>& parts);
Fields translator_fields(const std::vector<Part>& parts, Use use);
// Both models recorded one after the other, each under its part's name; kDecodeStep has the decoder alone. Outputs:
// "logits" of all tokens of the target for kReference, of those so far for kDecodeStep; "hits" where there is a loss.
Recording record_translator(Graph& graph, const std::vector<Part>& parts, Use use);

}  // namespace bascule::test
