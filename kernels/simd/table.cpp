// SPDX-License-Identifier: Apache-2.0
// The table of this ISA. Initialised by constants, so that nothing of an ISA library runs unless it is called.
#include "kernels/simd/kernels.h"

namespace bascule::BASCULE_ISA {

namespace {

#if defined(__AVX512F__)
constexpr Isa kIsa = Isa::kAvx512;
#else
constexpr Isa kIsa = Isa::kAvx2;
#endif

}  // namespace

extern const KernelTable kTable;
const KernelTable kTable = {
    kIsa,
    layer_norm_forward,
    layer_norm_backward,
    activation_forward,
    activation_backward,
    attention_forward,
    attention_backward,
    dropout_forward,
    text_embedding_forward,
    embedding_backward,
    gather_rows,
    scatter_rows,
    extract_patches,
    image_embedding_forward,
    image_embedding_backward,
    fill,
    add,
    copy_rows,
    column_sums,
    add_parts,
    sum_terms,
    blend_forward,
    blend_backward,
    normalize_forward,
    normalize_backward,
    sum_of_squares,
    cross_entropy_forward,
    cross_entropy_backward,
    contrastive_forward,
    weighted_row_sum,
    adamw,
    to_bf16,
    from_bf16,
};

}  // namespace bascule::BASCULE_ISA
