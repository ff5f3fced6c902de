// SPDX-License-Identifier: Apache-2.0
// The four kinds of output pixels of a doubled picture, (u, v) of convolution.h, are four products. The rows of
// a block are of one line, so that their results lie at equal distances. Steps: as in multiply_tile.h.
#pragma once

#include <cstdint>

#include "kernels/convolution.h"
#include "kernels/simd/gathered.h"
#include "kernels/simd/multiply_tile.h"

namespace bascule::BASCULE_ISA {
namespace {

constexpr std::int64_t kDoubledTaps = 4;

struct Kind {
  std::int64_t u, v;
};
constexpr Kind kKinds[] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};

// The numbers of a run of taps, dy or dx of the contract: from first to before end.
struct TapRange {
  std::int64_t first, end;
};
inline TapRange taps_of(std::int64_t kind, std::int64_t tap) {
  return tap == 0 ? TapRange{0, 1 + kind} : TapRange{1 + kind, 3};
}

// run(from, done, count) for each run of columns of the window of output pixel (2 i + u, 2 j + v) of a line, null where
// they are zero.
template <typename Run>
[[gnu::always_inline]] inline void for_window_runs(const DoubledConvolution& a, Kind kind, std::int64_t line,
                                                   std::int64_t j, std::int64_t first_col, std::int64_t cols,
                                                   const Run& run) {
  // Two pixels beside each other are one run of numbers.
  const std::int64_t first = j + kind.v - 1;
  const std::int64_t taps = first >= 0 && first + 1 < a.width ? 2 : 1, width = taps * a.channels;
  std::int64_t tap = first_col / width * taps, col = first_col % width;
  for (std::int64_t done = 0; done < cols; tap += taps) {
    const std::int64_t count = least(width - col, cols - done);
    const std::int64_t y = line % a.height + kind.u - 1 + tap / 2, x = first + tap % 2;
    const bool is_inside = y >= 0 && y < a.height && x >= 0 && x < a.width;
    const std::int64_t pixel = (line - line % a.height + y) * a.width + x;
    run(is_inside ? a.x + (pixel * a.channels + col) : ConstElements(), done, count);
    done += count;
    col = 0;
  }
}
template <typename Steps>
void pack_window(float* packed, const DoubledConvolution& a, Kind kind, std::int64_t line, std::int64_t j,
                 std::int64_t first_col, std::int64_t cols) {
  Gathered<Steps> gathered(packed);
  for_window_runs(a, kind, line, j, first_col, cols,
                  [&](ConstElements from, std::int64_t done, std::int64_t count) { gathered.put(from, done, count); });
  gathered.pack(cols);
}

// A weight as the products of these steps read it.
template <typename Steps, typename Lanes>
[[gnu::always_inline]] inline f32x16 load_weight(ConstElements weight, std::int64_t at, Lanes lanes) {
  if constexpr (!Steps::kPairs) return load(weight.float32() + at, lanes);
  return weight.is_bf16() ? load_rounded(weight.bf16() + at, lanes) : load_rounded(weight.float32() + at, lanes);
}

// Columns of the sums of one row of weights, as float32 or bf16. Not inlined beside a SubnormalsAreZeros.
template <typename Steps, typename Number>
[[gnu::noinline]] void add_weights(Number* sums, ConstElements weight, const DoubledConvolution& a, Kind kind,
                                   std::int64_t first_col, std::int64_t cols) {
  std::int64_t tap = first_col / a.channels, channel = first_col % a.channels;
  for (std::int64_t done = 0; done < cols; ++tap) {
    const std::int64_t count = least(a.channels - channel, cols - done);
    const TapRange down = taps_of(kind.u, tap / 2), across = taps_of(kind.v, tap % 2);
    for_lanes(
        count, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          const auto weight_at = [&](std::int64_t dy, std::int64_t dx) __attribute__((always_inline)) {
            return load_weight<Steps>(weight, (3 * dy + dx) * a.channels + channel + c, lanes);
          };
          f32x16 sum = weight_at(down.first, across.first);
          for (std::int64_t dy = down.first; dy < down.end; ++dy) {
            for (std::int64_t dx = across.first; dx < across.end; ++dx) {
              if (dy != down.first || dx != across.first) sum = Steps::add(sum, weight_at(dy, dx));
            }
          }
          store(sums + done + c, AllLanes{}, sum);
        });
    done += count;
    channel = 0;
  }
}

// As multiply_tile.h packs B. `rows` holds 16 rows of kRowPitch.
template <typename Steps>
void pack_weights(float* packed, const DoubledConvolution& a, Kind kind, std::int64_t first_col, std::int64_t cols,
                  float* rows) {
  for (std::int64_t o = 0; o < a.cols; o += kLanes) {
    const std::int64_t count = least(kLanes, a.cols - o);
    for (std::int64_t i = 0; i < count; ++i) {
      const ConstElements weight = a.weight + (o + i) * kTaps * a.channels;
      float* const row = rows + i * kRowPitch<Steps>;
      if constexpr (Steps::kPairs) {
        std::uint16_t sums[kGemmChunkBf16 + kLanes];
        add_weights<Steps>(sums, weight, a, kind, first_col, cols);
        pack_row_steps<Steps>(row, 0, sums, 0, 1, cols);
      } else {
        add_weights<Steps>(row, weight, a, kind, first_col, cols);
      }
    }
    pack_transposed<false>(packed + o / kBlockCols * kChunkSteps<Steps> * kBlockCols + o % kBlockCols, kBlockCols, rows,
                           kRowPitch<Steps>, count, steps_of<Steps>(cols));
  }
}

// Products of one chunk of columns, which packed_b holds of all sums of weights.
template <typename Steps>
void multiply_line(const DoubledConvolution& a, Kind kind, std::int64_t line, std::int64_t first_col, std::int64_t cols,
                   const float* packed_b, float* packed_a) {
  const std::int64_t blocks = (a.width + kBlockRows - 1) / kBlockRows, height = (a.width + blocks - 1) / blocks;
  for (std::int64_t j = 0; j < a.width; j += height) {
    const std::int64_t rows = least(height, a.width - j);
    for (std::int64_t i = 0; i < rows; ++i)
      pack_window<Steps>(packed_a + i * kRowPitch<Steps>, a, kind, line, j + i, first_col, cols);
    float* const y = a.y + (((2 * line + kind.u) * a.width + j) * 2 + kind.v) * a.y_stride;
    GemmBlock block{};
    block.a = packed_a;
    block.b = packed_b;
    block.b_step = kBlockCols;
    block.ldc = 2 * a.y_stride;
    block.steps = steps_of<Steps>(cols);
    block.start_row = first_col > 0 ? block.ldc : 0;
    for (std::int64_t col = 0; col < a.cols; col += kBlockCols) {
      block.c = y + col;
      block.start = first_col > 0 ? y + col : a.bias != nullptr ? a.bias + col : nullptr;
      block.cols = a.cols - col;
      multiply_block_of<Steps, LayoutA::kRows>(block, rows);
      block.b += kChunkSteps<Steps> * kBlockCols;
    }
  }
}

template <typename Steps>
void convolve_doubled(const DoubledConvolution& a) {
  float* const packed_b = static_cast<float*>(a.scratch);
  float* const packed_a = packed_b + kChunkSteps<Steps> * kGemmTileCols;
  const std::int64_t depth = kDoubledTaps * a.channels;
  for (const Kind kind : kKinds) {
    for (std::int64_t first = 0; first < depth; first += Steps::kChunk) {
      const std::int64_t cols = least(Steps::kChunk, depth - first);
      pack_weights<Steps>(packed_b, a, kind, first, cols, packed_a);
      for (std::int64_t line = a.first_line; line < a.first_line + a.lines; ++line)
        multiply_line<Steps>(a, kind, line, first, cols, packed_b, packed_a);
    }
  }
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
