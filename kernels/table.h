// SPDX-License-Identifier: Apache-2.0
// The kernels of one ISA. Chosen once, before the seal; a tape then calls through these pointers. Each kernel's
// contract stands at its argument struct. No kernel allocates, throws, starts threads or reads a global; all work on
// the rows they are given.
#pragma once

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/adamw.h"
#include "kernels/attention.h"
#include "kernels/bf16.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/isa.h"
#include "kernels/layer_norm.h"
#include "kernels/loss.h"
#include "kernels/patches.h"

namespace bascule {

struct KernelTable {
  Isa isa;
  void (*layer_norm_forward)(const LayerNormForward&);
  void (*layer_norm_backward)(const LayerNormBackward&);
  void (*activation_forward)(const ActivationForward&);
  void (*activation_backward)(const ActivationBackward&);
  void (*attention_forward)(const AttentionForward&);
  void (*attention_backward)(const AttentionBackward&);
  void (*dropout_forward)(const DropoutForward&);
  void (*text_embedding_forward)(const TextEmbeddingForward&);
  void (*embedding_backward)(const EmbeddingBackward&);
  void (*gather_rows)(const GatherRows&);
  void (*scatter_rows)(const ScatterRows&);
  void (*extract_patches)(const ExtractPatches&);
  void (*image_embedding_forward)(const ImageEmbeddingForward&);
  void (*image_embedding_backward)(const ImageEmbeddingBackward&);
  void (*fill)(const Fill&);
  void (*add)(const Add&);
  void (*copy_rows)(const CopyRows&);
  void (*column_sums)(const ColumnSums&);
  void (*add_parts)(const AddParts&);
  void (*sum_terms)(const SumTerms&);
  void (*blend_forward)(const BlendForward&);
  void (*blend_backward)(const BlendBackward&);
  void (*normalize_forward)(const NormalizeForward&);
  void (*normalize_backward)(const NormalizeBackward&);
  void (*sum_of_squares)(const SumOfSquares&);
  void (*cross_entropy_forward)(const CrossEntropyForward&);
  void (*cross_entropy_backward)(const CrossEntropyBackward&);
  void (*contrastive_forward)(const ContrastiveForward&);
  void (*weighted_row_sum)(const WeightedRowSum&);
  void (*adamw)(const AdamW&);
  void (*to_bf16)(const ToBf16&);
  void (*from_bf16)(const FromBf16&);
};

// The table of an ISA that isa_supported().
const KernelTable& kernels_for(Isa isa);

}  // namespace bascule
