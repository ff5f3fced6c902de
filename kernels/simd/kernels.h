// SPDX-License-Identifier: Apache-2.0
// The kernels of kernels/table.h as this ISA compiles them; table.cpp collects their addresses. Contracts stand at the
// argument structs.
#pragma once

#include "kernels/table.h"

namespace bascule::BASCULE_ISA {

void layer_norm_forward(const LayerNormForward& a);
void layer_norm_backward(const LayerNormBackward& a);
void activation_forward(const ActivationForward& a);
void activation_backward(const ActivationBackward& a);
void attention_forward(const AttentionForward& a);
void attention_backward(const AttentionBackward& a);
void dropout_forward(const DropoutForward& a);
void text_embedding_forward(const TextEmbeddingForward& a);
void embedding_backward(const EmbeddingBackward& a);
void gather_rows(const GatherRows& a);
void scatter_rows(const ScatterRows& a);
void extract_patches(const ExtractPatches& a);
void image_embedding_forward(const ImageEmbeddingForward& a);
void image_embedding_backward(const ImageEmbeddingBackward& a);
void fill(const Fill& a);
void add(const Add& a);
void copy_rows(const CopyRows& a);
void column_sums(const ColumnSums& a);
void add_parts(const AddParts& a);
void sum_terms(const SumTerms& a);
void blend_forward(const BlendForward& a);
void blend_backward(const BlendBackward& a);
void normalize_forward(const NormalizeForward& a);
void normalize_backward(const NormalizeBackward& a);
void sum_of_squares(const SumOfSquares& a);
void cross_entropy_forward(const CrossEntropyForward& a);
void cross_entropy_backward(const CrossEntropyBackward& a);
void contrastive_forward(const ContrastiveForward& a);
void weighted_row_sum(const WeightedRowSum& a);
void adamw(const AdamW& a);
void to_bf16(const ToBf16& a);
void from_bf16(const FromBf16& a);

}  // namespace bascule::BASCULE_ISA
