// SPDX-License-Identifier: Apache-2.0
// The kernels of one ISA. Chosen once, before the seal; a tape then calls through these pointers. Each kernel's
// contract stands at its argument struct. No kernel allocates, throws, starts threads or reads a global; all work on
// the rows they are given.
#pragma once

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/bf16.h"
#include "kernels/convolution.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/gemm_tile.h"
#include "kernels/isa.h"
#include "kernels/loss.h"
#include "kernels/norms.h"
#include "kernels/optimizers.h"
#include "kernels/patches.h"
#include "kernels/pooling.h"
#include "kernels/sampling.h"

namespace bascule {

template <typename Arguments>
using KernelFunction = void (*)(const Arguments&);

struct KernelTable {
  Isa isa;
#define BASCULE_KERNEL(name, Arguments) KernelFunction<Arguments> name;
#include "kernels/kernels.inc"
#undef BASCULE_KERNEL
};

// The table of an ISA that isa_supported(). With kTiles its kernels in bf16 have that law.
const KernelTable& kernels_for(Isa isa, Bf16Law law = Bf16Law::kPairs);

// Whether a B of bf16 or of float32 and of this depth can be packed for the products of these kernels
// (GemmTile::b_is_packed): a packed B takes no more bytes than B.
bool packs_columns(const KernelTable& kernels, bool in_bf16, std::int64_t depth);

}  // namespace bascule
