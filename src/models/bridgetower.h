// SPDX-License-Identifier: Apache-2.0
// BridgeTower, recorded as a graph. The same layers give the graphs that train, evaluate and predict.
#pragma once

#include <cstdint>
#include <vector>

#include "src/graph/graph.h"
#include "src/models/model.h"
#include "src/models/towers.h"

namespace bascule {

// Names of the body's tensors begin with it in the classes that have a head.
inline constexpr char kBodyPrefix[] = "bridgetower.";

struct BridgeTowerOptions : RecordOptions {
  ModelHead head = ModelHead::kContrastive;
  bool tie_word_embeddings = false;  // the masked-LM decoder is the word table
  bool every_output = false;  // masked LM, without a backward part: its logits, and the image features and pooler
                              // output that its loss does not read, can be read after a replay
};

// The outputs of a recording. Those that its head has are kept: they can be read after a replay. Masked LM has image
// features and pooler output with every_output only, predictions with `predictions` only.
struct BridgeTowerOutputs {
  Tensor text_features,
      image_features;  // of the last cross-modal layers: all rows, or (B, C) first rows only
  bool first_rows_only = false;
  Tensor pooler_output;                            // (B, 2 C)
  Tensor text_embeds, image_embeds, cross_embeds;  // contrastive: (B, E)
  Tensor logits;                                   // matching: (B, 2); masked LM: (M, V)
  Tensor hits;                                     // matching (B), masked LM (M): the largest logit is the label's
  Tensor predicted, predicted_probabilities;       // (M, n), with RecordOptions::predictions
  Tensor probabilities;                            // (M), with RecordOptions::predictions
  Tensor loss;                                     // (1, 1); none for the bare model
  int loss_stream = kSamples;                      // whose rows the loss is a mean over
};

// Records the forward pass and the head's loss. derive_backward(graph) then makes it a training graph.
BridgeTowerOutputs record_bridgetower(Graph& graph, const BridgeTowerConfig& config, const BridgeTowerOptions& options);

// Rows of an image stream: patches + 1.
std::int64_t image_rows(const BridgeTowerConfig& config, std::int64_t height, std::int64_t width);

// Tensors of the class's checkpoint that take no part in this head's forward pass, with the law of their fresh values:
// they are copied from the source checkpoint to ours, or made anew.
std::vector<ParameterPiece> unused_tensors(const BridgeTowerConfig& config, ModelHead head);

// The towers of a contrastive model alone: what a text or a picture is compared by. Neither embedding depends on the
// cross-modal layers, so a search records no layer of them and loads none of their weights.

// Packed captions to (B, contrastive_hidden_size), rows of length 1, kept: BridgeTowerOutputs::text_embeds.
Tensor record_text_embeds(Graph& graph, const BridgeTowerConfig& config);

// Pictures of height x width to (B, contrastive_hidden_size), rows of length 1, kept: BridgeTowerOutputs::image_embeds.
Tensor record_image_embeds(Graph& graph, const BridgeTowerConfig& config, std::int64_t height, std::int64_t width);

}  // namespace bascule
