// SPDX-License-Identifier: Apache-2.0
// Layer and root mean square normalisation: a row is read from memory once, its further passes find it in the
// first-level cache.
#include <cstdint>

#include "kernels/lanes/lanes_philox.h"
#include "kernels/simd/kernels.h"
#include "kernels/simd/rows.h"

namespace bascule::BASCULE_ISA {
namespace {

enum class RowNorm { kLayer, kRms };

// What the first pass over a row adds up: its numbers, or their squares.
template <RowNorm kNorm>
[[gnu::always_inline]] inline f32x16 added(f32x16 total, f32x16 s) {
  if constexpr (kNorm == RowNorm::kLayer) return total + s;
  return fma(s, s, total);
}

// sum = x + dropout(h); gives the total of that row.
template <RowNorm kNorm>
float add_residual(float* sum, const float* x, const float* h, const RowNormForward& a, std::int64_t row) {
  if (a.dropout.threshold == 0) {
    return sum_over_lanes(
        a.cols, [&](auto lanes, std::int64_t c, f32x16 total) __attribute__((always_inline)) {
          const f32x16 s = load(x + c, lanes) + load(h + c, lanes);
          store(sum + c, lanes, s);
          return added<kNorm>(total, s);
        });
  }
  f32x16 total = set(0.0f);
  const f32x16 scale = set(a.dropout.scale);
  for_kept_lanes(
      a.cols, a.dropout, a.row_keys[row], [&](auto lanes, std::int64_t c, Mask16 kept) __attribute__((always_inline)) {
        const f32x16 s = load(x + c, lanes) + drop(kept, load(h + c, lanes), scale);
        store(sum + c, lanes, s);
        total = added<kNorm>(total, s);
      });
  return horizontal_sum(total);
}

template <RowNorm kNorm>
float row_total(const float* x, std::int64_t cols) {
  return sum_over_lanes(
      cols, [&](auto lanes, std::int64_t c, f32x16 total)
                __attribute__((always_inline)) { return added<kNorm>(total, load(x + c, lanes)); });
}

inline float centred_squares(const float* x, std::int64_t cols, float mean) {
  return sum_over_lanes(
      cols, [&](auto lanes, std::int64_t c, f32x16 sum) __attribute__((always_inline)) {
        const f32x16 d = keep(lanes, load(x + c, lanes) - set(mean), 0.0f);
        return fma(d, d, sum);
      });
}

template <RowNorm kNorm>
void row_norm_forward(const RowNormForward& a) {
  const float cols = static_cast<float>(a.cols);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * a.cols;
    float total;
    if (a.h != nullptr) {
      float* const sum = a.sum + r * a.cols;
      total = add_residual<kNorm>(sum, x, a.h + r * a.cols, a, r);
      x = sum;
    } else {
      total = row_total<kNorm>(x, a.cols);
    }
    const float mean = total / cols;  // of the squares: kRms
    const Elements y = a.y + r * a.cols;
    if constexpr (kNorm == RowNorm::kLayer) {
      const float rstd = 1.0f / square_root(centred_squares(x, a.cols, mean) / cols + a.epsilon);
      a.mean[r] = mean;
      a.rstd[r] = rstd;
      for_lanes(
          a.cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
            const f32x16 normal = (load(x + c, lanes) - set(mean)) * set(rstd);
            store(y, c, lanes, fma(normal, load(a.gamma + c, lanes), load(a.beta + c, lanes)));
          });
    } else {
      const float rstd = 1.0f / square_root(mean + a.epsilon);
      a.rstd[r] = rstd;
      for_lanes(
          a.cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
            store(y, c, lanes, load(x + c, lanes) * set(rstd) * load(a.gamma + c, lanes));
          });
    }
  }
}

// A row of the backward pass.
template <RowNorm kNorm>
struct BackwardRow {
  const RowNormBackward& a;
  std::int64_t r;
  f32x16 mean, rstd;
  float mean_e = 0.0f, mean_e_normal = 0.0f;  // mean_c(e), of kLayer alone, and mean_c(e n)

  [[gnu::always_inline]] BackwardRow(const RowNormBackward& arguments, std::int64_t row)
      : a(arguments),
        r(row),
        mean(set(kNorm == RowNorm::kLayer ? arguments.mean[row] : 0.0f)),
        rstd(set(arguments.rstd[row])) {}

  template <typename Lanes>
  [[gnu::always_inline]] f32x16 normal(std::int64_t c, Lanes lanes) const {
    const f32x16 sum = load(a.sum + r * a.cols + c, lanes);
    if constexpr (kNorm == RowNorm::kLayer) return (sum - mean) * rstd;
    return sum * rstd;
  }

  // Adds the row to the parts. d: of d_y; n: normal().
  template <typename Lanes>
  [[gnu::always_inline]] void add_to_parts(std::int64_t c, Lanes lanes, f32x16 d, f32x16 n) const {
    if (a.d_gamma_part == nullptr) return;
    store(a.d_gamma_part + c, lanes, fma(d, n, load(a.d_gamma_part + c, lanes)));
    if constexpr (kNorm == RowNorm::kLayer) store(a.d_beta_part + c, lanes, load(a.d_beta_part + c, lanes) + d);
  }

  // The means, which the second pass needs. Each kind of norm has its own order of the sum.
  [[gnu::always_inline]] void first_pass() {
    const float* const d_y = a.d_y + r * a.cols;
    const float cols = static_cast<float>(a.cols);
    if constexpr (kNorm == RowNorm::kRms) {
      const float total = sum_over_lanes(
          a.cols, [&](auto lanes, std::int64_t c, f32x16 e_normal) __attribute__((always_inline)) {
            const f32x16 d = load(d_y + c, lanes), n = normal(c, lanes);
            add_to_parts(c, lanes, d, n);
            return fma(d * load(a.gamma + c, lanes), n, e_normal);
          });
      mean_e_normal = total / cols;
      return;
    }
    f32x16 total_e = set(0.0f), total_e_normal = set(0.0f);
    for_lanes(
        a.cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          const f32x16 d = load(d_y + c, lanes), n = normal(c, lanes);
          const f32x16 e = d * load(a.gamma + c, lanes);
          total_e = total_e + e;
          total_e_normal = fma(e, n, total_e_normal);
          add_to_parts(c, lanes, d, n);
        });
    mean_e = horizontal_sum(total_e) / cols;
    mean_e_normal = horizontal_sum(total_e_normal) / cols;
  }

  // Everything of one step is read before d_x and d_h, which may be d_sum or d_y, are written.
  template <typename Lanes>
  [[gnu::always_inline]] f32x16 second_pass_step(Lanes lanes, std::int64_t c) const {
    const std::int64_t at = r * a.cols + c;
    f32x16 e = load(a.d_y + at, lanes) * load(a.gamma + c, lanes);
    if constexpr (kNorm == RowNorm::kLayer) e = e - set(mean_e);
    f32x16 g = fnma(normal(c, lanes), set(mean_e_normal), e) * rstd;
    if (a.d_sum != nullptr) g = load(a.d_sum + at, lanes) + g;
    store(a.d_x + at, lanes, a.accumulate ? load(a.d_x + at, lanes) + g : g);
    return g;
  }
};

template <RowNorm kNorm>
void row_norm_backward(const RowNormBackward& a) {
  if (a.d_gamma_part != nullptr) {
    fill_row(a.d_gamma_part, a.cols, 0.0f);
    if constexpr (kNorm == RowNorm::kLayer) fill_row(a.d_beta_part, a.cols, 0.0f);
  }
  const bool drops = a.d_h != nullptr && a.dropout.threshold != 0;
  const f32x16 scale = set(a.dropout.scale);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    BackwardRow<kNorm> row(a, r);
    row.first_pass();
    float* const d_h = a.d_h == nullptr ? nullptr : a.d_h + r * a.cols;
    if (drops) {
      for_kept_lanes(
          a.cols, a.dropout,
          a.row_keys[r], [&](auto lanes, std::int64_t c, Mask16 kept) __attribute__((always_inline)) {
            store(d_h + c, lanes, drop(kept, row.second_pass_step(lanes, c), scale));
          });
    } else {
      for_lanes(
          a.cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
            const f32x16 g = row.second_pass_step(lanes, c);
            if (d_h != nullptr) store(d_h + c, lanes, g);
          });
    }
  }
}

}  // namespace

void layer_norm_forward(const RowNormForward& a) { row_norm_forward<RowNorm::kLayer>(a); }
void layer_norm_backward(const RowNormBackward& a) { row_norm_backward<RowNorm::kLayer>(a); }
void rms_norm_forward(const RowNormForward& a) { row_norm_forward<RowNorm::kRms>(a); }
void rms_norm_backward(const RowNormBackward& a) { row_norm_backward<RowNorm::kRms>(a); }

// Rows of length one, and sums of squares.

namespace {

constexpr float kNormFloor = 1e-12f;

}  // namespace

void normalize_forward(const NormalizeForward& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float* const x = a.x + r * a.cols;
    float* const y = a.y + r * a.cols;
    const float squares = sum_over_lanes(
        a.cols, [&](auto lanes, std::int64_t c, f32x16 sum) __attribute__((always_inline)) {
          const f32x16 v = load(x + c, lanes);
          return fma(v, v, sum);
        });
    const float length = square_root(squares);
    const float norm = length < kNormFloor ? kNormFloor : length;
    a.norm[r] = norm;
    for_lanes(
        a.cols, [&](auto lanes, std::int64_t c)
                    __attribute__((always_inline)) { store(y + c, lanes, load(x + c, lanes) / set(norm)); });
  }
}

void normalize_backward(const NormalizeBackward& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float* const d_y = a.d_y + r * a.cols;
    const float* const y = a.y + r * a.cols;
    float* const d_x = a.d_x + r * a.cols;
    const float dot = sum_over_lanes(
        a.cols, [&](auto lanes, std::int64_t c, f32x16 sum)
                    __attribute__((always_inline)) { return fma(load(d_y + c, lanes), load(y + c, lanes), sum); });
    // At the floor y is x / 1e-12, a constant factor: nothing is taken off along y.
    const f32x16 along = set(a.norm[r] <= kNormFloor ? 0.0f : dot);
    const f32x16 norm = set(a.norm[r]);
    for_lanes(
        a.cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          f32x16 d = fnma(load(y + c, lanes), along, load(d_y + c, lanes)) / norm;
          if (a.accumulate) d = load(d_x + c, lanes) + d;
          store(d_x + c, lanes, d);
        });
  }
}

void sum_of_squares(const SumOfSquares& a) {
  f64x16 even = set_f64(0.0);
  f64x16 odd = set_f64(0.0);
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= a.count; i += 2 * kLanes) {
    const f64x16 x0 = to_f64(load(a.x + i));
    const f64x16 x1 = to_f64(load(a.x + i + kLanes));
    even = fma(x0, x0, even);
    odd = fma(x1, x1, odd);
  }
  for_lanes(
      a.count - i, [&](auto lanes, std::int64_t rest) __attribute__((always_inline)) {
        const f64x16 x = to_f64(load(a.x + i + rest, lanes));
        even = fma(x, x, even);
      });
  *a.out = horizontal_sum(even + odd);
}

}  // namespace bascule::BASCULE_ISA
