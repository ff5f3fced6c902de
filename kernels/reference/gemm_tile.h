// SPDX-License-Identifier: Apache-2.0
// Reference for gemm_tile.h: the arithmetic of its contract, one element at a time.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/gemm_tile.h"
#include "kernels/reference/bf16.h"

namespace bascule::reference {

// An operand, as the two kinds of products take it.
struct Number {
  float float32;
  std::uint16_t bf16;
};
inline float widened(std::uint16_t x) {
  float value = 0.0f;
  from_bf16({&value, &x, 1});
  return value;
}
inline Number number_at(ConstElements x, std::int64_t i) {
  if (x.is_bf16()) return {0.0f, x.bf16()[i]};
  Number number{x.float32()[i], 0};
  to_bf16({&number.bf16, &number.float32, 1});
  return number;
}

// p = fma(a, b, p) over the depths of one chunk.
struct Float32Chain {
  static constexpr std::int64_t kChunk = kGemmChunk;
  static constexpr bool kStartsFromZero = false;  // the first sum is added to 0 where there is nothing else
  template <typename Factors>
  static float sum(std::int64_t first, std::int64_t end, const Factors& factors) {
    float p = 0.0f;
    for (std::int64_t d = first; d < end; ++d) p = std::fmaf(factors.a(d).float32, factors.b(d).float32, p);
    return p;
  }
  static float add(float c, float p) { return c + p; }
};

struct Bf16Chain {
  static constexpr std::int64_t kChunk = kGemmChunkBf16;
  static constexpr bool kStartsFromZero = false;

  static float flushed(float x) {
    return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
  }
  static float operand(const Number& x) { return flushed(widened(x.bf16)); }
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
      p = fma(paired ? operand(factors.a(d + 1)) : 0.0f, paired ? operand(factors.b(d + 1)) : 0.0f, p);
      p = fma(operand(factors.a(d)), operand(factors.b(d)), p);
    }
    return p;
  }
  static float add(float c, float p) { return flushed(flushed(c) + p); }
};

// Bf16Law::kTiles.
struct TileChains : Bf16Chain {
  static constexpr std::int64_t kChunk = kTileDepths;
  static constexpr bool kStartsFromZero = true;
  template <typename Factors>
  static float sum(std::int64_t first, std::int64_t end, const Factors& factors) {
    float chains[2] = {0.0f, 0.0f};
    for (std::int64_t d = first; d < first + kTileDepths; ++d) {
      float& chain = chains[d % 2];
      chain = fma(d < end ? operand(factors.a(d)) : 0.0f, d < end ? operand(factors.b(d)) : 0.0f, chain);
    }
    return add(chains[0], chains[1]);
  }
};

struct GemmFactors {
  const GemmTile& tile;
  std::int64_t row, col;
  Number a(std::int64_t d) const {
    return number_at(tile.a, tile.kind == GemmKind::kWeightGradient ? d * tile.lda + row : row * tile.lda + d);
  }
  Number b(std::int64_t d) const {
    return number_at(tile.b, tile.kind == GemmKind::kForward ? col * tile.ldb + d : d * tile.ldb + col);
  }
};

// An element of C: the sums of the chunks, added in order to what it starts with; null: to nothing.
template <typename Chain, typename Factors>
float sum_of_chunks(const float* start, std::int64_t depth, const Factors& factors) {
  float c = start != nullptr ? *start : 0.0f;
  for (std::int64_t first = 0; first < depth; first += Chain::kChunk) {
    const std::int64_t end = first + Chain::kChunk < depth ? first + Chain::kChunk : depth;
    const float p = Chain::sum(first, end, factors);
    c = start == nullptr && first == 0 && !Chain::kStartsFromZero ? p : Chain::add(c, p);
  }
  return c;
}

template <typename Chain>
void gemm_tile_of(const GemmTile& tile) {
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    for (std::int64_t col = 0; col < tile.cols; ++col) {
      const std::int64_t at = row * tile.ldc + col;
      const float* const start = tile.accumulate        ? tile.c.float32() + at
                                 : tile.bias != nullptr ? tile.bias + col
                                                        : nullptr;
      const float c = sum_of_chunks<Chain>(start, tile.depth, GemmFactors{tile, row, col});
      if (tile.c.is_bf16()) {
        to_bf16({tile.c.bf16() + at, &c, 1});
      } else {
        tile.c.float32()[at] = c;
      }
    }
  }
}

inline void gemm_tile(const GemmTile& tile) { gemm_tile_of<Float32Chain>(tile); }
inline void gemm_tile_bf16(const GemmTile& tile) { gemm_tile_of<Bf16Chain>(tile); }
inline void gemm_tile_bf16_tiles(const GemmTile& tile) { gemm_tile_of<TileChains>(tile); }

}  // namespace bascule::reference
