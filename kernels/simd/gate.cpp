// SPDX-License-Identifier: Apache-2.0
// Gated activation: both halves of a row are read together, and a vector of each is written at once.
#include "kernels/activation.h"

#include <cstdint>

#include "kernels/lanes/lanes_philox.h"
#include "kernels/simd/activation_values.h"
#include "kernels/simd/kernels.h"
#include "kernels/simd/rows.h"

namespace bascule::BASCULE_ISA {
namespace {

static_assert(kActivationRun == 64, "a run is what one Philox counter block drops");

// step(first, count, kept) for runs of the columns of row r. Where nothing is dropped all are kept.
template <typename Arguments, typename Step>
[[gnu::always_inline]] inline void for_runs(const Arguments& a, std::int64_t r, const Step& step) {
  for (std::int64_t first = 0; first < a.cols; first += kActivationRun) {
    KeptColumns kept;
    for (Mask16& mask : kept.mask) mask = first_lanes(kLanes);
    if (a.dropout.threshold != 0) kept = kept_columns(a.dropout, a.row_keys[r], first / kActivationRun);
    step(first, a.cols - first < kActivationRun ? a.cols - first : kActivationRun, kept);
  }
}

// The first columns of the half that is activated, and of the other one.
struct Halves {
  std::int64_t activated, factor;
};
inline Halves halves_of(GatedHalf half, std::int64_t cols) {
  return half == GatedHalf::kFirst ? Halves{0, cols} : Halves{cols, 0};
}

// The factor of an element that is kept.
inline f32x16 scale_of(const DropoutStream& stream) { return set(stream.threshold != 0 ? stream.scale : 1.0f); }

}  // namespace

void gate_forward(const GateForward& a) {
  const f32x16 scale = scale_of(a.dropout);
  const Halves at = halves_of(a.half, a.cols);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const ConstElements x_row = a.x + r * 2 * a.cols, activated = x_row + at.activated, factor = x_row + at.factor;
    const Elements y = a.y + r * a.cols;
    for_runs(a, r, [&](std::int64_t first, std::int64_t count, const KeptColumns& kept) {
      float x[kActivationRun], value[kActivationRun];
      copy_run(x, activated + first, count);
      activation_values(value, x, count, a.kind);
      for_lanes(
          count, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
            const f32x16 product = load(value + i) * load(factor, first + i, lanes);
            store(y, first + i, lanes, drop(kept.mask[i / kLanes], product, scale));
          });
    });
  }
}

void gate_backward(const GateBackward& a) {
  const f32x16 scale = scale_of(a.dropout);
  const Halves at = halves_of(a.half, a.cols);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const ConstElements x_row = a.x + r * 2 * a.cols, activated = x_row + at.activated, factor = x_row + at.factor;
    const ConstElements d_y = a.d_y + r * a.cols;
    const Elements d_row = a.d_x + r * 2 * a.cols, d_activated = d_row + at.activated, d_factor = d_row + at.factor;
    for_runs(a, r, [&](std::int64_t first, std::int64_t count, const KeptColumns& kept) {
      float x[kActivationRun], value[kActivationRun], slope[kActivationRun];
      copy_run(x, activated + first, count);
      activation_values(value, x, count, a.kind);
      activation_slopes(slope, x, count, a.kind);
      for_lanes(
          count, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
            const f32x16 g = drop(kept.mask[i / kLanes], load(d_y, first + i, lanes), scale);
            const f32x16 d = g * load(slope + i) * load(factor, first + i, lanes);
            store(d_factor, first + i, lanes, g * load(value + i));
            store(d_activated, first + i, lanes, d);
          });
    });
  }
}

}  // namespace bascule::BASCULE_ISA
