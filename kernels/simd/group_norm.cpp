// SPDX-License-Identifier: Apache-2.0
// Group normalisation: blocks of rows fit the second-level cache, so that a sum's further passes find them there.
#include "kernels/norms.h"

#include <cstdint>

#include "kernels/lanes/lanes_math.h"
#include "kernels/simd/kernels.h"
#include "kernels/simd/rows.h"

namespace bascule::BASCULE_ISA {

void group_norm_sums(const GroupNormSums& a) {
  float* const mean = a.parts;
  float* const rest = mean + a.channels;
  float* const squares = rest + a.channels;
  fill_row(mean, 3 * a.channels, 0.0f);
  add_rows(mean, a.x, a.rows, a.channels, a.channels);
  const f32x16 rows = set(static_cast<float>(a.rows));
  for_lanes(
      a.channels, [&](auto lanes, std::int64_t c)
                      __attribute__((always_inline)) { store(mean + c, lanes, load(mean + c, lanes) / rows); });
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float* const x = a.x + r * a.channels;
    for_lanes(
        a.channels, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          const f32x16 d = load(x + c, lanes) - load(mean + c, lanes);
          store(rest + c, lanes, load(rest + c, lanes) + d);
          store(squares + c, lanes, fma(d, d, load(squares + c, lanes)));
        });
  }
}

// The sums of a block about its own mean, moved to that of the group.
void group_norm_statistics(const GroupNormStatistics& a) {
  const std::int64_t width = a.channels / a.groups, blocks = (a.rows + a.block_rows - 1) / a.block_rows;
  const double elements = static_cast<double>(a.rows * width);
  for (std::int64_t i = a.first; i < a.first + a.count; ++i) {
    const std::int64_t sample = i / a.groups, channel = i % a.groups * width;
    const float* const first_part = a.parts + sample * blocks * 3 * a.channels + channel;
    const auto rows_of = [&](std::int64_t b) {
      return static_cast<double>(b + 1 < blocks ? a.block_rows : a.rows - b * a.block_rows);
    };
    double total = 0.0;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const float* const means = first_part + b * 3 * a.channels;
      const float* const rests = means + a.channels;
      for (std::int64_t c = 0; c < width; ++c)
        total += rows_of(b) * static_cast<double>(means[c]) + static_cast<double>(rests[c]);
    }
    const double mean = total / elements;
    double squares = 0.0;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const float* const means = first_part + b * 3 * a.channels;
      const float* const rests = means + a.channels;
      const float* const about_means = rests + a.channels;
      for (std::int64_t c = 0; c < width; ++c) {
        const double d = static_cast<double>(means[c]) - mean;
        squares += static_cast<double>(about_means[c]) + d * (2.0 * static_cast<double>(rests[c]) + rows_of(b) * d);
      }
    }
    const double rstd = 1.0 / __builtin_sqrt(squares / elements + static_cast<double>(a.epsilon));
    float* const statistics = a.statistics + sample * 2 * a.channels + channel;
    fill_row(statistics, width, static_cast<float>(mean));
    fill_row(statistics + a.channels, width, static_cast<float>(rstd));
  }
}

namespace {

template <bool kSilu>
void normalize_rows(const GroupNormForward& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float* const x = a.x + r * a.channels;
    const Elements y = a.y + r * a.channels;
    for_lanes(
        a.channels, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          const f32x16 normal =
              (load(x + c, lanes) - load(a.statistics + c, lanes)) * load(a.statistics + a.channels + c, lanes);
          const f32x16 z = fma(normal, load(a.gamma + c, lanes), load(a.beta + c, lanes));
          store(y, c, lanes, kSilu ? z * sigmoid(z) : z);
        });
  }
}

// n, and g, of norms.h.
struct Gradient {
  f32x16 normal, g;
};
template <bool kSilu, typename Arguments, typename Lanes>
[[gnu::always_inline]] inline Gradient gradient_of(const Arguments& a, std::int64_t row, std::int64_t c, Lanes lanes) {
  const std::int64_t at = row * a.channels + c;
  const f32x16 d_y = load(a.d_y + at, lanes);
  const f32x16 normal =
      (load(a.x + at, lanes) - load(a.statistics + c, lanes)) * load(a.statistics + a.channels + c, lanes);
  if (!kSilu) return {normal, d_y};
  const f32x16 z = fma(normal, load(a.gamma + c, lanes), load(a.beta + c, lanes));
  const Sigmoid s = sigmoid_and_derivative(z);
  return {normal, d_y * fma(z, s.derivative, s.value)};
}

template <bool kSilu>
void sum_gradients(const GroupNormBackwardSums& a) {
  fill_row(a.parts, 2 * a.channels, 0.0f);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for_lanes(
        a.channels, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          const Gradient of = gradient_of<kSilu>(a, r, c, lanes);
          float* const alone = a.parts + a.channels + c;
          store(a.parts + c, lanes, fma(of.g, of.normal, load(a.parts + c, lanes)));
          store(alone, lanes, load(alone, lanes) + of.g);
        });
  }
}

template <bool kSilu>
void write_gradients(const GroupNormBackward& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    float* const d_x = a.d_x + r * a.channels;
    for_lanes(
        a.channels, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          const Gradient of = gradient_of<kSilu>(a, r, c, lanes);
          const f32x16 e = of.g * load(a.gamma + c, lanes) - load(a.means + a.channels + c, lanes);
          const f32x16 d = fnma(of.normal, load(a.means + c, lanes), e) * load(a.statistics + a.channels + c, lanes);
          store(d_x + c, lanes, a.accumulate ? load(d_x + c, lanes) + d : d);
        });
  }
}

}  // namespace

void group_norm_forward(const GroupNormForward& a) { a.silu ? normalize_rows<true>(a) : normalize_rows<false>(a); }

void group_norm_backward_sums(const GroupNormBackwardSums& a) {
  a.silu ? sum_gradients<true>(a) : sum_gradients<false>(a);
}

void group_norm_backward_means(const GroupNormBackwardMeans& a) {
  const std::int64_t width = a.channels / a.groups;
  const double elements = static_cast<double>(a.rows * width);
  for (std::int64_t i = a.first; i < a.first + a.count; ++i) {
    const std::int64_t sample = i / a.groups, channel = i % a.groups * width;
    for (std::int64_t what = 0; what < 2; ++what) {
      double total = 0.0;
      for (std::int64_t b = 0; b < a.blocks; ++b) {
        const float* const part = a.parts + ((sample * a.blocks + b) * 2 + what) * a.channels + channel;
        for (std::int64_t c = 0; c < width; ++c)
          total += static_cast<double>(a.gamma[channel + c]) * static_cast<double>(part[c]);
      }
      fill_row(a.means + (sample * 2 + what) * a.channels + channel, width, static_cast<float>(total / elements));
    }
  }
}

void group_norm_backward(const GroupNormBackward& a) { a.silu ? write_gradients<true>(a) : write_gradients<false>(a); }

}  // namespace bascule::BASCULE_ISA
