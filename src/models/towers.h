// SPDX-License-Identifier: Apache-2.0
// BridgeTower's towers and cross-modal layers. Each function adds its operations to the graph; equations: Transformers'
// modeling_bridgetower.py, class by class.
#pragma once

#include <cstdint>
#include <string>

#include "src/models/bridgetower_batch.h"
#include "src/models/bridgetower_config.h"
#include "src/models/recorder.h"

namespace bascule {

struct BridgeTowerRecorder : Recorder {
  // frozen: names of parts of the body, without its prefix.
  BridgeTowerRecorder(Graph& target, const BridgeTowerConfig& model_config, std::string name_prefix,
                      const std::vector<std::string>& frozen_parts, bool drops);

  const BridgeTowerConfig& config;
  std::string prefix;  // "bridgetower." in the classes with a head, "" in the bare model
  LayerShape layer;    // of the text tower and of the cross-modal layers

  SampleRows text_rows() const {
    return {rows_of_stream(kTextTokens), graph.field("text_offsets"), keys("text_row_keys")};
  }
};

// The text tower's embeddings and its layers (post-norm).
Tensor text_embeddings(BridgeTowerRecorder& r);
Tensor text_layer(BridgeTowerRecorder& r, std::int64_t i, Tensor x);

// The vision tower (pre-norm): z is the raw stream, `normed` is what the next block reads, ln_1 of that block.
struct VisionState {
  Tensor z, normed;
};
// Pictures of height x width; another size than the model's resizes the position table.
VisionState vision_embeddings(BridgeTowerRecorder& r, std::int64_t height, std::int64_t width);
VisionState vision_block(BridgeTowerRecorder& r, std::int64_t i, VisionState state, const SampleRows& rows);
std::string vision_name(const BridgeTowerRecorder& r, const std::string& name);

// One cross-modal layer of one stream ("text" or "image"). first_only: rows of x are each sample's first row.
Tensor cross_modal_layer(BridgeTowerRecorder& r, const std::string& modality, std::int64_t j, RowStream own,
                         RowStream other, bool first_only);

}  // namespace bascule
