// SPDX-License-Identifier: Apache-2.0
// Gated activation: both halves of a row are read together, and a vector of each is written at once.
#include "kernels/gate.h"

#include <cstdint>

#include "kernels/lanes/lanes_philox.h"
#include "kernels/simd/activation_functions.h"
#include "kernels/simd/kernels.h"

namespace bascule::BASCULE_ISA {
namespace {

// step(lanes, c, drop) for the columns of row r; drop(v) is dropout of sixteen of them.
template <typename Arguments, typename Step>
[[gnu::always_inline]] inline void for_row(const Arguments& a, std::int64_t r, const Step& step) {
  if (a.dropout.threshold == 0) {
    for_lanes(
        a.cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          step(lanes, c, [](f32x16 v) __attribute__((always_inline)) { return v; });
        });
    return;
  }
  const f32x16 scale = set(a.dropout.scale);
  for_kept_lanes(
      a.cols, a.dropout, a.row_keys[r], [&](auto lanes, std::int64_t c, Mask16 kept) __attribute__((always_inline)) {
        step(lanes, c, [&](f32x16 v) __attribute__((always_inline)) { return drop(kept, v, scale); });
      });
}

template <typename Function>
void forward(const GateForward& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const ConstElements activated = a.x + r * 2 * a.cols, factor = activated + a.cols;
    const Elements y = a.y + r * a.cols;
    for_row(
        a, r, [&](auto lanes, std::int64_t c, auto dropped) __attribute__((always_inline)) {
          store(y, c, lanes, dropped(Function::value(load(activated, c, lanes)) * load(factor, c, lanes)));
        });
  }
}

template <typename Function>
void backward(const GateBackward& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const ConstElements activated = a.x + r * 2 * a.cols, factor = activated + a.cols, d_y = a.d_y + r * a.cols;
    const Elements d_activated = a.d_x + r * 2 * a.cols, d_factor = d_activated + a.cols;
    for_row(
        a, r, [&](auto lanes, std::int64_t c, auto dropped) __attribute__((always_inline)) {
          const f32x16 g = dropped(load(d_y, c, lanes)), x = load(activated, c, lanes);
          const f32x16 d = g * Function::slope(x) * load(factor, c, lanes);
          store(d_factor, c, lanes, g * Function::value(x));
          store(d_activated, c, lanes, d);
        });
  }
}

}  // namespace

void gate_forward(const GateForward& a) {
  with_function(a.kind, [&](auto function) { forward<decltype(function)>(a); });
}

void gate_backward(const GateBackward& a) {
  with_function(a.kind, [&](auto function) { backward<decltype(function)>(a); });
}

}  // namespace bascule::BASCULE_ISA
