// SPDX-License-Identifier: Apache-2.0
// What the tests of convolutions share, of pictures as they are and of doubled ones: numbers of outputs, operands,
// scratch, and the comparison in bf16.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/convolution.h"
#include "kernels/gemm_tile.h"
#include "kernels/table.h"
#include "tests/kernels/bf16_operands.h"
#include "tests/kernels/kernel_test.h"

namespace bascule::test {

// One output, less than a block of columns and more than one, by turns: all of them with each shape of pictures and
// each number of channels, at a third of the time.
class OutputsByTurns {
 public:
  std::int64_t next() { return kOutputs[turn_++ % 3]; }

 private:
  static constexpr std::int64_t kOutputs[] = {1, 4, 35};
  std::size_t turn_ = 0;
};

struct ConvolutionOperands {
  std::vector<float> x, weight, bias;
  // elements: of x; window: of a pixel of y.
  ConvolutionOperands(Seeded& random, std::int64_t elements, std::int64_t cols, std::int64_t window)
      : x(normal(random, elements)), weight(normal(random, cols * window)), bias(normal(random, cols)) {}
};

struct alignas(64) ConvolutionScratch {
  std::byte bytes[std::max(kGemmTileScratchBytes, kConvolutionBf16ScratchBytes)];
};

// shape: without its operands; count: of y's numbers. X and W: float, or std::uint16_t for bf16.
template <typename X, typename W, typename Arguments>
void expect_bits_of_bf16(const Arguments& shape, std::int64_t count, const ConvolutionOperands& o,
                         void (*reference)(const Arguments&), void (*KernelTable::*kernel)(const Arguments&)) {
  std::vector<float> truth(static_cast<std::size_t>(count));
  const GuardedBuffer<X> x = guarded<X>(o.x);
  const GuardedBuffer<W> weight = guarded<W>(o.weight);
  Arguments a = shape;
  a.y = truth.data();
  a.x = x.data();
  a.weight = weight.data();
  a.bias = o.bias.data();
  reference(a);
  const auto y = same_on_every_isa([&](const KernelTable& kernels) {
    static ConvolutionScratch scratch;
    std::memset(&scratch, 0xff, sizeof scratch);  // NaN: what is not packed must not be used
    Floats out(count), bias(o.bias);
    a.y = out.data();
    a.bias = bias.data();
    a.scratch = &scratch;
    (kernels.*kernel)(a);
    return out.values();
  });
  ASSERT_EQ(first_different_bit(y, truth), -1);
}

}  // namespace bascule::test
