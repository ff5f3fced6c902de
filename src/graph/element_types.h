// SPDX-License-Identifier: Apache-2.0
// bf16 mixed precision: makes a float32 graph one whose matrix products read bf16.
//
//   * The products of a linear layer and of a convolution round their operands to bf16 and sum in float32
//     (kernels/gemm_tile.h). Where the session trains, weights stay float32 in memory and are rounded where a product
//     packs them: there is no second copy. Products over one row, or one row a sample (poolers, projections of a head,
//     the embedding of a timestep), stay float32: they cost little, and the loss sees their error.
//   * An activation that forward reads in products alone is bf16. Where another operation reads it as well, that one
//     has it in float32; what backward needs of it is a rounded copy. So the products' operands are all that forward
//     rounds, and what is kept for backward takes half the memory:
//
//       bf16                 patches, output of attention, of an activation, of a layer norm before products
//       float32, bf16 copy   query, key, value; input of an activation; output of a layer norm that goes on as residual
//
//   * Gradients of these are bf16 if the operations that write and read them can take it, and none adds to them.
//   * Everything else is float32: residual stream and its gradient, statistics, softmax, losses, gradients of weights.
//
// Which places of an operation may be bf16 is said by its kind (operation.h). The operation computes in float32 and
// rounds once, when it writes (kernels/bf16.h).
#pragma once

#include "src/graph/graph.h"

namespace bascule {

// The tensors of forward that are rounded. kOfReaders: every activation whose readers all take bf16: queries, keys and
// values too, and inputs of activation functions. For models that nothing here trains: the bits are not those of a
// training graph's forward part.
enum class Rounding { kOfProducts, kOfReaders };

// Once, when the graph is whole (after derive_backward() in training), before it is planned.
void choose_element_types(Graph& graph, Rounding rounding = Rounding::kOfProducts);

// For graphs without gradients: parameters that only such products read are stored as bf16 from now on, in half the
// memory. One that is also read whole, as a table is, stays float32; a bf16 copy beside it is for products whose time
// is that of reading it. No bit of a result changes. After choose_element_types() of all graphs that name the
// parameters.
void store_rounded_parameters(Span<Graph* const> graphs, ParameterSet* parameters);

// Whether it has bf16 products.
bool has_bf16_products(const Graph& graph);

}  // namespace bascule
