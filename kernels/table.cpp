// SPDX-License-Identifier: Apache-2.0
#include "kernels/table.h"

#define BASCULE_COMPILED_ONLY

namespace bascule {

// Each is defined by simd/table.cpp, compiled for its ISA.
#define BASCULE_INSTRUCTION_SET(enumerator, name) \
  namespace name {                                \
  extern const KernelTable kTable;                \
  }
#include "kernels/isas.inc"
#undef BASCULE_INSTRUCTION_SET

#if defined(__x86_64__)
namespace amx {
void gemm_tile_bf16_tiles(const GemmTile& tile);
void pack_columns_bf16_tiles(const PackColumns& a);
void convolution_bf16_tiles(const Convolution& a);
void doubled_convolution_bf16_tiles(const DoubledConvolution& a);
}  // namespace amx
#endif

namespace {

const KernelTable& compiled_kernels(Isa isa) {
  static constexpr const KernelTable* kTables[] = {
#define BASCULE_INSTRUCTION_SET(enumerator, name) &name::kTable,
#include "kernels/isas.inc"
#undef BASCULE_INSTRUCTION_SET
  };
  return *kTables[static_cast<int>(isa)];
}

// The kernels of a set, by law.
struct Tables {
  KernelTable pairs, tiles;

  explicit Tables(Isa isa) : pairs(compiled_kernels(set_of_all_kernels(isa))) {
    pairs.isa = isa;
#if defined(__x86_64__)
    if (isa == Isa::kAmx) {
      pairs.gemm_tile_bf16_tiles = amx::gemm_tile_bf16_tiles;
      pairs.pack_columns_bf16_tiles = amx::pack_columns_bf16_tiles;
      pairs.convolution_bf16_tiles = amx::convolution_bf16_tiles;
      pairs.doubled_convolution_bf16_tiles = amx::doubled_convolution_bf16_tiles;
    }
#endif
    tiles = pairs;
    tiles.gemm_tile_bf16 = pairs.gemm_tile_bf16_tiles;
    tiles.pack_columns_bf16 = pairs.pack_columns_bf16_tiles;
    tiles.convolution_bf16 = pairs.convolution_bf16_tiles;
    tiles.doubled_convolution_bf16 = pairs.doubled_convolution_bf16_tiles;
  }
};

template <Isa kIsa>
const KernelTable& table_of(Bf16Law law) {
  static const Tables tables(kIsa);
  return law == Bf16Law::kTiles ? tables.tiles : tables.pairs;
}

}  // namespace

const KernelTable& kernels_for(Isa isa, Bf16Law law) {
  switch (isa) {
    case Isa::kAmx: return table_of<Isa::kAmx>(law);
#define BASCULE_INSTRUCTION_SET(enumerator, name) \
  case Isa::enumerator:                           \
    return table_of<Isa::enumerator>(law);
#include "kernels/isas.inc"
#undef BASCULE_INSTRUCTION_SET
    default: return table_of<Isa::kScalar>(law);
  }
}

bool packs_columns(const KernelTable& kernels, bool in_bf16, std::int64_t depth) {
  // Of the longest ones AMX multiplies no C of bf16 by tiles: the scratch has no room for 32 rows and columns.
  constexpr std::int64_t kMostTileDepths = kGemmTileBf16ScratchBytes / (64 * sizeof(std::uint16_t));
  if (!in_bf16) return true;
  const bool is_of_tiles = kernels.gemm_tile_bf16 == kernels.gemm_tile_bf16_tiles;
  if (is_of_tiles) return kernels.isa == Isa::kAmx && depth % kTileDepths == 0 && depth <= kMostTileDepths;
  return kernels.isa == Isa::kAvx512Bf16 && depth % 2 == 0;  // pairs of numbers; elsewhere they are widened
}

}  // namespace bascule
