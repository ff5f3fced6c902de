// SPDX-License-Identifier: Apache-2.0
// The instructions of tiles, by which the CPU or tests/support/emulated_tiles.cpp computes, against Bf16Law::kTiles in
// plain loops, for tiles of every shape.
#include <gtest/gtest.h>

#include "kernels/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/reference/gemm_tile.h"
#include "tests/support/guarded_buffer.h"
#include "tests/support/seeded.h"

namespace bascule::test::test_tiles {
namespace {

struct Shape {
  std::int64_t rows, cols, pairs;
};

// C = C + A B: a tile's rows follow one another.
[[gnu::target("amx-tile,amx-bf16"), gnu::noinline]] void multiply(float* c, const std::uint16_t* a,
                                                                  const std::uint16_t* b, const Shape& shape,
                                                                  bool is_loaded) {
  struct alignas(64) {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  } configuration;
  const auto set = [&](int tile, std::int64_t rows, std::int64_t row_bytes) {
    configuration.rows[tile] = static_cast<std::uint8_t>(rows);
    configuration.row_bytes[tile] = static_cast<std::uint16_t>(row_bytes);
  };
  set(0, shape.rows, 4 * shape.cols);
  set(3, shape.rows, 4 * shape.pairs);
  set(7, shape.pairs, 4 * shape.cols);
  asm volatile("" : : "r"(&configuration) : "memory");
  _tile_loadconfig(&configuration);
  if (is_loaded) {
    _tile_loadd(0, c, 4 * shape.cols);
  } else {
    _tile_zero(0);
  }
  _tile_loadd(3, a, 4 * shape.pairs);
  _tile_loadd(7, b, 4 * shape.cols);
  _tile_dpbf16ps(0, 3, 7);
  _tile_stored(0, c, 4 * shape.cols);
  _tile_release();
  asm volatile("" : : : "memory");
}

// Any bits, numbers whose products lie about the smallest normal one, or numbers of like size.
std::uint16_t any_bf16(Seeded& random, int kind) {
  const std::uint64_t bits = random.bits();
  const std::uint64_t least = kind == 1 ? 61 : 120;
  return static_cast<std::uint16_t>(kind == 0 ? bits : (bits & 0x807f) | (least + (bits >> 32) % 6) << 7);
}

std::size_t count_of(std::int64_t rows, std::int64_t cols) { return static_cast<std::size_t>(rows * cols); }

TEST(Tiles, TheInstructionComputesTheLawOfItsName) {
  if (!isa_supported(Isa::kAmx)) GTEST_SKIP() << "no tiles";
  Seeded random;
  for (int i = 0; i < 3 * 16 * 16; ++i) {
    const Shape shape{1 + i / 3 % 16, 1 + i / 48 % 16, random.integer(1, 16)};
    GuardedBuffer<std::uint16_t> a(count_of(shape.rows, 2 * shape.pairs)), b(count_of(shape.pairs, 2 * shape.cols));
    for (std::uint16_t& x : a.span()) x = any_bf16(random, i % 3);
    for (std::uint16_t& x : b.span()) x = any_bf16(random, i % 3);
    GuardedBuffer<float> c(count_of(shape.rows, shape.cols));
    for (float& x : c.span()) x = static_cast<float>(random.normal()) * (i % 3 == 1 ? 0x1p-126f : 1.0f);
    const bool is_loaded = i % 4 != 0;
    std::vector<float> truth(c.begin(), c.end());
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      for (std::int64_t col = 0; col < shape.cols; ++col) {
        float even = 0.0f, odd = 0.0f;
        for (std::int64_t pair = 0; pair < shape.pairs; ++pair) {
          const auto number = [](std::uint16_t x) { return reference::Bf16Chain::operand({0.0f, x}); };
          const std::size_t at_a = static_cast<std::size_t>(2 * (row * shape.pairs + pair));
          const std::size_t at_b = static_cast<std::size_t>(2 * (pair * shape.cols + col));
          even = reference::Bf16Chain::fma(number(a[at_a]), number(b[at_b]), even);
          odd = reference::Bf16Chain::fma(number(a[at_a + 1]), number(b[at_b + 1]), odd);
        }
        float& sum = truth[static_cast<std::size_t>(row * shape.cols + col)];
        sum = reference::Bf16Chain::add(is_loaded ? sum : 0.0f, reference::Bf16Chain::add(even, odd));
      }
    }
    multiply(c.data(), a.data(), b.data(), shape, is_loaded);
    for (std::size_t j = 0; j < truth.size(); ++j) {
      const bool same = std::memcmp(&truth[j], &c[j], sizeof(float)) == 0;
      ASSERT_TRUE(same || (std::isnan(truth[j]) && std::isnan(c[j])))
          << shape.rows << " x " << shape.cols << ", " << shape.pairs << " pairs, element " << j << ": " << c[j]
          << " instead of " << truth[j];
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_tiles
#endif
