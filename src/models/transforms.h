// SPDX-License-Identifier: Apache-2.0
// Projects a tower's rows to the cross-modal width, with their token type: x W^T + (b + type[index]). One for all
// links, or one each. The picture embedding of the contrastive head reads the last one of the pictures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "src/models/towers.h"

namespace bascule {

class Transforms {
 public:
  // The recorder outlives this.
  explicit Transforms(BridgeTowerRecorder& r) : r_(r) {}

  // Rows that enter cross-modal layer j.
  Tensor text(Tensor t, std::int64_t j) { return apply("text", 0, t, j); }
  Tensor image(Tensor v, std::int64_t j) { return apply("image", 1, v, j); }

 private:
  Tensor apply(const std::string& modality, std::int64_t type, Tensor x, std::int64_t j) {
    const bool shared = r_.config.share_cross_modal_transformer_layers;
    const std::string name =
        r_.prefix + "cross_modal_" + modality + "_transform" + (shared ? "" : "." + std::to_string(j));
    const std::int64_t width = r_.config.hidden_size;
    const Tensor weight = r_.weight(name + ".weight", width, r_.graph[x].cols, r_.deviation);
    Tensor& bias = bias_[static_cast<std::size_t>(type)];
    if (!bias || !shared) {
      const Tensor types = r_.table(r_.prefix + "token_type_embeddings.weight", 2, width, r_.deviation);
      bias = add_table_row(r_.graph, name + ".bias_and_type", r_.bias(name + ".bias", width), types, type);
    }
    return linear(r_.graph, name, x, weight, bias);
  }

  BridgeTowerRecorder& r_;
  Tensor bias_[2];
};

}  // namespace bascule
