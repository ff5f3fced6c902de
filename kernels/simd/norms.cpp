// SPDX-License-Identifier: Apache-2.0
// Layer normalisation: a row is read from memory once, its further passes find it in the first-level cache.
#include <cstdint>

#include "kernels/lanes/lanes_philox.h"
#include "kernels/simd/kernels.h"
#include "kernels/simd/rows.h"

namespace bascule::BASCULE_ISA {
namespace {

// sum = x + dropout(h); gives the sum of that row.
inline float add_residual(float* sum, const float* x, const float* h, const LayerNormForward& a, std::int64_t row) {
  if (a.dropout.threshold == 0) {
    return sum_over_lanes(
        a.cols, [&](auto lanes, std::int64_t c, f32x16 total) __attribute__((always_inline)) {
          const f32x16 s = load(x + c, lanes) + load(h + c, lanes);
          store(sum + c, lanes, s);
          return total + s;
        });
  }
  f32x16 total = set(0.0f);
  const f32x16 scale = set(a.dropout.scale);
  for_kept_lanes(
      a.cols, a.dropout, a.row_keys[row], [&](auto lanes, std::int64_t c, Mask16 kept) __attribute__((always_inline)) {
        const f32x16 s = load(x + c, lanes) + drop(kept, load(h + c, lanes), scale);
        store(sum + c, lanes, s);
        total = total + s;
      });
  return horizontal_sum(total);
}

inline float row_sum(const float* x, std::int64_t cols) {
  return sum_over_lanes(
      cols, [&](auto lanes, std::int64_t c, f32x16 sum)
                __attribute__((always_inline)) { return sum + load(x + c, lanes); });
}

inline float centred_squares(const float* x, std::int64_t cols, float mean) {
  return sum_over_lanes(
      cols, [&](auto lanes, std::int64_t c, f32x16 sum) __attribute__((always_inline)) {
        const f32x16 d = keep(lanes, load(x + c, lanes) - set(mean), 0.0f);
        return fma(d, d, sum);
      });
}

}  // namespace

void layer_norm_forward(const LayerNormForward& a) {
  const float cols = static_cast<float>(a.cols);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * a.cols;
    float total;
    if (a.h != nullptr) {
      float* const sum = a.sum + r * a.cols;
      total = add_residual(sum, x, a.h + r * a.cols, a, r);
      x = sum;
    } else {
      total = row_sum(x, a.cols);
    }
    const float mean = total / cols;
    const float rstd = 1.0f / square_root(centred_squares(x, a.cols, mean) / cols + a.epsilon);
    a.mean[r] = mean;
    a.rstd[r] = rstd;
    const Elements y = a.y + r * a.cols;
    for_lanes(
        a.cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          const f32x16 normal = (load(x + c, lanes) - set(mean)) * set(rstd);
          store(y, c, lanes, fma(normal, load(a.gamma + c, lanes), load(a.beta + c, lanes)));
        });
  }
}

namespace {

// Results of the first pass over a row that the second needs.
struct RowMeans {
  float e, e_normal;  // mean_c(e), mean_c(e n)
};

inline RowMeans first_pass(const LayerNormBackward& a, std::int64_t r) {
  const float* const d_y = a.d_y + r * a.cols;
  const float* const sum = a.sum + r * a.cols;
  const f32x16 mean = set(a.mean[r]);
  const f32x16 rstd = set(a.rstd[r]);
  f32x16 total_e = set(0.0f);
  f32x16 total_e_normal = set(0.0f);
  for_lanes(
      a.cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
        const f32x16 d = load(d_y + c, lanes);
        const f32x16 normal = (load(sum + c, lanes) - mean) * rstd;
        const f32x16 e = d * load(a.gamma + c, lanes);
        total_e = total_e + e;
        total_e_normal = fma(e, normal, total_e_normal);
        if (a.d_gamma_part != nullptr) {
          store(a.d_gamma_part + c, lanes, fma(d, normal, load(a.d_gamma_part + c, lanes)));
          store(a.d_beta_part + c, lanes, load(a.d_beta_part + c, lanes) + d);
        }
      });
  const float cols = static_cast<float>(a.cols);
  return {horizontal_sum(total_e) / cols, horizontal_sum(total_e_normal) / cols};
}

// Everything of one step is read before d_x and d_h, which may be d_sum or d_y, are written.
template <typename Lanes>
[[gnu::always_inline]] inline f32x16 second_pass_step(const LayerNormBackward& a, std::int64_t r, RowMeans means,
                                                      Lanes lanes, std::int64_t c) {
  const std::int64_t at = r * a.cols + c;
  const f32x16 rstd = set(a.rstd[r]);
  const f32x16 normal = (load(a.sum + at, lanes) - set(a.mean[r])) * rstd;
  const f32x16 e = load(a.d_y + at, lanes) * load(a.gamma + c, lanes);
  f32x16 g = fnma(normal, set(means.e_normal), e - set(means.e)) * rstd;
  if (a.d_sum != nullptr) g = load(a.d_sum + at, lanes) + g;
  store(a.d_x + at, lanes, a.accumulate ? load(a.d_x + at, lanes) + g : g);
  return g;
}

}  // namespace

void layer_norm_backward(const LayerNormBackward& a) {
  if (a.d_gamma_part != nullptr) {
    fill_row(a.d_gamma_part, a.cols, 0.0f);
    fill_row(a.d_beta_part, a.cols, 0.0f);
  }
  const bool drops = a.d_h != nullptr && a.dropout.threshold != 0;
  const f32x16 scale = set(a.dropout.scale);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const RowMeans means = first_pass(a, r);
    float* const d_h = a.d_h == nullptr ? nullptr : a.d_h + r * a.cols;
    if (drops) {
      for_kept_lanes(
          a.cols, a.dropout,
          a.row_keys[r], [&](auto lanes, std::int64_t c, Mask16 kept) __attribute__((always_inline)) {
            store(d_h + c, lanes, drop(kept, second_pass_step(a, r, means, lanes, c), scale));
          });
    } else {
      for_lanes(
          a.cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
            const f32x16 g = second_pass_step(a, r, means, lanes, c);
            if (d_h != nullptr) store(d_h + c, lanes, g);
          });
    }
  }
}

// Root mean square normalisation: a row is read from memory once, its further passes find it in the first-level cache.

namespace {

// sum = x + dropout(h); gives the sum of that row's squares.
inline float add_residual(float* sum, const float* x, const float* h, const RmsNormForward& a, std::int64_t row) {
  if (a.dropout.threshold == 0) {
    return sum_over_lanes(
        a.cols, [&](auto lanes, std::int64_t c, f32x16 squares) __attribute__((always_inline)) {
          const f32x16 s = load(x + c, lanes) + load(h + c, lanes);
          store(sum + c, lanes, s);
          return fma(s, s, squares);
        });
  }
  f32x16 squares = set(0.0f);
  const f32x16 scale = set(a.dropout.scale);
  for_kept_lanes(
      a.cols, a.dropout, a.row_keys[row], [&](auto lanes, std::int64_t c, Mask16 kept) __attribute__((always_inline)) {
        const f32x16 s = load(x + c, lanes) + drop(kept, load(h + c, lanes), scale);
        store(sum + c, lanes, s);
        squares = fma(s, s, squares);
      });
  return horizontal_sum(squares);
}

inline float row_squares(const float* x, std::int64_t cols) {
  return sum_over_lanes(
      cols, [&](auto lanes, std::int64_t c, f32x16 squares) __attribute__((always_inline)) {
        const f32x16 s = load(x + c, lanes);
        return fma(s, s, squares);
      });
}

}  // namespace

void rms_norm_forward(const RmsNormForward& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * a.cols;
    float squares;
    if (a.h != nullptr) {
      float* const sum = a.sum + r * a.cols;
      squares = add_residual(sum, x, a.h + r * a.cols, a, r);
      x = sum;
    } else {
      squares = row_squares(x, a.cols);
    }
    const float rstd = 1.0f / square_root(squares / static_cast<float>(a.cols) + a.epsilon);
    a.rstd[r] = rstd;
    const Elements y = a.y + r * a.cols;
    for_lanes(
        a.cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          store(y, c, lanes, load(x + c, lanes) * set(rstd) * load(a.gamma + c, lanes));
        });
  }
}

namespace {

// mean_c(e n) of a row, which the second pass needs; adds the row to d_gamma_part.
inline float first_pass(const RmsNormBackward& a, std::int64_t r) {
  const float* const d_y = a.d_y + r * a.cols;
  const float* const sum = a.sum + r * a.cols;
  const f32x16 rstd = set(a.rstd[r]);
  const float total = sum_over_lanes(
      a.cols, [&](auto lanes, std::int64_t c, f32x16 e_normal) __attribute__((always_inline)) {
        const f32x16 d = load(d_y + c, lanes);
        const f32x16 normal = load(sum + c, lanes) * rstd;
        if (a.d_gamma_part != nullptr)
          store(a.d_gamma_part + c, lanes, fma(d, normal, load(a.d_gamma_part + c, lanes)));
        return fma(d * load(a.gamma + c, lanes), normal, e_normal);
      });
  return total / static_cast<float>(a.cols);
}

// Everything of one step is read before d_x and d_h, which may be d_sum or d_y, are written.
template <typename Lanes>
[[gnu::always_inline]] inline f32x16 second_pass_step(const RmsNormBackward& a, std::int64_t r, float mean_e_normal,
                                                      Lanes lanes, std::int64_t c) {
  const std::int64_t at = r * a.cols + c;
  const f32x16 rstd = set(a.rstd[r]);
  const f32x16 normal = load(a.sum + at, lanes) * rstd;
  const f32x16 e = load(a.d_y + at, lanes) * load(a.gamma + c, lanes);
  f32x16 g = fnma(normal, set(mean_e_normal), e) * rstd;
  if (a.d_sum != nullptr) g = load(a.d_sum + at, lanes) + g;
  store(a.d_x + at, lanes, a.accumulate ? load(a.d_x + at, lanes) + g : g);
  return g;
}

}  // namespace

void rms_norm_backward(const RmsNormBackward& a) {
  if (a.d_gamma_part != nullptr) fill_row(a.d_gamma_part, a.cols, 0.0f);
  const bool drops = a.d_h != nullptr && a.dropout.threshold != 0;
  const f32x16 scale = set(a.dropout.scale);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float mean_e_normal = first_pass(a, r);
    float* const d_h = a.d_h == nullptr ? nullptr : a.d_h + r * a.cols;
    if (drops) {
      for_kept_lanes(
          a.cols, a.dropout,
          a.row_keys[r], [&](auto lanes, std::int64_t c, Mask16 kept) __attribute__((always_inline)) {
            store(d_h + c, lanes, drop(kept, second_pass_step(a, r, mean_e_normal, lanes, c), scale));
          });
    } else {
      for_lanes(
          a.cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
            const f32x16 g = second_pass_step(a, r, mean_e_normal, lanes, c);
            if (d_h != nullptr) store(d_h + c, lanes, g);
          });
    }
  }
}

}  // namespace bascule::BASCULE_ISA
