// SPDX-License-Identifier: Apache-2.0
// BridgeTower's towers alone, as a search records them.
#pragma once

#include <cstdint>

#include "src/graph/graph.h"
#include "src/models/towers.h"

namespace bascule {

// The towers of a contrastive model alone: what a text or a picture is compared by. Neither embedding depends on the
// cross-modal layers, so a search records no layer of them and loads none of their weights. Equations and parameter
// names are bridgetower.h's.

// Packed captions to (B, contrastive_hidden_size), rows of length 1, kept: BridgeTowerOutputs::text_embeds.
Tensor record_text_embeds(Graph& graph, const BridgeTowerConfig& config);

// Pictures of height x width to (B, contrastive_hidden_size), rows of length 1, kept: BridgeTowerOutputs::image_embeds.
Tensor record_image_embeds(Graph& graph, const BridgeTowerConfig& config, std::int64_t height, std::int64_t width);

}  // namespace bascule
