// SPDX-License-Identifier: Apache-2.0
// The kernel tables as a library for other languages: tools/compare_kernel_accuracy reads the structs from the headers.
#include <algorithm>

#include "kernels/attention.h"
#include "kernels/gemm_tile.h"
#include "kernels/table.h"

extern "C" {

// Null where this machine does not run the ISA.
const void* bascule_kernel_table(int isa) {
  const bascule::Isa wanted = static_cast<bascule::Isa>(isa);
  return bascule::isa_supported(wanted) ? &bascule::kernels_for(wanted) : nullptr;
}

// Of forward and of backward.
std::int64_t bascule_attention_scratch_floats(std::int64_t key_rows, std::int64_t head_size) {
  return std::max(bascule::attention_forward_scratch_floats(key_rows, head_size),
                  bascule::attention_backward_scratch_floats(key_rows, head_size));
}

std::size_t bascule_gemm_tile_scratch_bytes() { return bascule::kGemmTileScratchBytes; }
std::size_t bascule_winograd_scratch_bytes() { return bascule::kWinogradScratchBytes; }
}
