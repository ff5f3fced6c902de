// SPDX-License-Identifier: Apache-2.0
// Reference for gemm_tile.h: the arithmetic of its contract, one element at a time.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/gemm_tile.h"

namespace bascule::reference {

// p = fma(a, b, p) over the depths of one chunk.
struct Float32Chain {
  static constexpr std::int64_t kChunk = kGemmChunk;
  template <typename Factors>
  static float sum(std::int64_t first, std::int64_t end, const Factors& factors) {
    float p = 0.0f;
    for (std::int64_t d = first; d < end; ++d) p = std::fmaf(factors.a(d), factors.b(d), p);
    return p;
  }
  static float add(float c, float p) { return c + p; }
};

struct Bf16Chain {
  static constexpr std::int64_t kChunk = kGemmChunkBf16;

  static float flushed(float x) {
    return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
  }
  static float widened(std::uint16_t x) {
    const std::uint32_t bits = static_cast<std::uint32_t>(x) << 16;
    float value = 0.0f;
    std::memcpy(&value, &bits, sizeof value);
    return flushed(value);
  }
  // The smallest normal number may be a subnormal sum rounded up: with an unbounded exponent it stays below, if the
  // exact sum is below the middle between the smallest normal number and its predecessor of 24 bits.
  static float fma(float a, float b, float c) {
    const float sum = std::fmaf(a, b, c);
    if (std::fabs(sum) != std::numeric_limits<float>::min()) return flushed(sum);
    const long double exact = static_cast<long double>(a) * static_cast<long double>(b) + static_cast<long double>(c);
    const bool is_tiny = std::fabs(exact) < 0x1p-126L - 0x1p-151L;
    return is_tiny ? std::copysign(0.0f, sum) : sum;
  }
  template <typename Factors>
  static float sum(std::int64_t first, std::int64_t end, const Factors& factors) {
    float p = 0.0f;
    for (std::int64_t d = first; d < end; d += 2) {
      const bool paired = d + 1 < end;
      p = fma(paired ? widened(factors.a(d + 1)) : 0.0f, paired ? widened(factors.b(d + 1)) : 0.0f, p);
      p = fma(widened(factors.a(d)), widened(factors.b(d)), p);
    }
    return p;
  }
  static float add(float c, float p) { return flushed(flushed(c) + p); }
};

template <typename Element>
struct GemmFactors {
  const GemmTileOf<Element>& tile;
  std::int64_t row, col;
  Element a(std::int64_t d) const {
    return tile.kind == GemmKind::kWeightGradient ? tile.a[d * tile.lda + row] : tile.a[row * tile.lda + d];
  }
  Element b(std::int64_t d) const {
    return tile.kind == GemmKind::kForward ? tile.b[col * tile.ldb + d] : tile.b[d * tile.ldb + col];
  }
};

template <typename Chain, typename Element>
void gemm_tile_of(const GemmTileOf<Element>& tile) {
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    for (std::int64_t col = 0; col < tile.cols; ++col) {
      float& c = tile.c[row * tile.ldc + col];
      bool nothing = !tile.accumulate && tile.bias == nullptr;
      if (tile.bias != nullptr) c = tile.bias[col];
      if (tile.depth == 0 && nothing) c = 0.0f;
      for (std::int64_t first = 0; first < tile.depth; first += Chain::kChunk) {
        const std::int64_t end = first + Chain::kChunk < tile.depth ? first + Chain::kChunk : tile.depth;
        const float p = Chain::sum(first, end, GemmFactors<Element>{tile, row, col});
        c = nothing ? p : Chain::add(c, p);
        nothing = false;
      }
    }
  }
}

inline void gemm_tile(const GemmTile& tile) { gemm_tile_of<Float32Chain>(tile); }
inline void gemm_tile_bf16(const GemmTileBf16& tile) { gemm_tile_of<Bf16Chain>(tile); }

}  // namespace bascule::reference
