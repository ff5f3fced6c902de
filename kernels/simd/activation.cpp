// SPDX-License-Identifier: Apache-2.0
// Activation functions: the passes are the same for all.
#include <cstdint>

#include "kernels/simd/activation_functions.h"
#include "kernels/simd/kernels.h"
#include "kernels/simd/rows.h"

namespace bascule::BASCULE_ISA {
namespace {

template <typename Function>
void forward(const ActivationForward& a) {
  for_lanes(
      a.count, [&](auto lanes, std::int64_t i)
                   __attribute__((always_inline)) { store(a.y, i, lanes, Function::value(load(a.x, i, lanes))); });
}

template <typename Function>
void backward(const ActivationBackward& a) {
  if (a.part != nullptr) fill_row(a.part, a.cols, 0.0f);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const ConstElements x = a.x + r * a.cols, d_y = a.d_y + r * a.cols;
    const Elements d_x = a.d_x + r * a.cols;
    for_lanes(
        a.cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          const f32x16 d = load(d_y, c, lanes) * Function::slope(load(x, c, lanes));
          if (a.part != nullptr) store(a.part + c, lanes, load(a.part + c, lanes) + d);
          store(d_x, c, lanes, a.accumulate ? load(d_x, c, lanes) + d : d);
        });
  }
}

}  // namespace

void activation_forward(const ActivationForward& a) {
  with_function(a.kind, [&](auto function) { forward<decltype(function)>(a); });
}

void activation_backward(const ActivationBackward& a) {
  with_function(a.kind, [&](auto function) { backward<decltype(function)>(a); });
}

}  // namespace bascule::BASCULE_ISA
