// SPDX-License-Identifier: Apache-2.0
#include "firmware_shims/codec/resample.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace bascule::codec {
namespace {

constexpr ProcessorSize kElongationSize = {288, 32};  // at which training refuses what the processor refuses
constexpr double kLongestOverShortest = 1333.0 / 800.0;
constexpr int kLargestShift = 22;

struct Size {
  std::int64_t width, height;
};

double longest_edge(const ProcessorSize& size) {
  return static_cast<double>(static_cast<std::int64_t>(kLongestOverShortest * static_cast<double>(size.shortest_edge)));
}

// The shorter side becomes longest_edge() / ratio, rounded, which is to be a divisor at least.
std::uint32_t most_elongated(const ProcessorSize& size) {
  if (size.shortest_edge < size.divisor) return 0;
  return static_cast<std::uint32_t>(longest_edge(size) / (static_cast<double>(size.divisor) - 0.5));
}

Size processor_size(std::int64_t width, std::int64_t height, const ProcessorSize& size) {
  if (size.shortest_edge == 0) return {width, height};
  const double w = static_cast<double>(width);
  const double h = static_cast<double>(height);
  const double shortest = static_cast<double>(size.shortest_edge);
  const double longest = longest_edge(size);
  double scale = shortest / std::min(h, w);
  double new_h = h < w ? shortest : scale * h;
  double new_w = h < w ? scale * w : shortest;
  if (std::max(new_h, new_w) > longest) {
    scale = longest / std::max(new_h, new_w);
    new_h = scale * new_h;
    new_w = scale * new_w;
  }
  const auto rounded = [&](double v) { return static_cast<std::int64_t>(v + 0.5) / size.divisor * size.divisor; };
  return {rounded(new_w), rounded(new_h)};
}

Axis processor_axis(std::int64_t in, std::int64_t out, std::int64_t side) {
  const std::int64_t count = std::min(out, side);
  return {in, 0, in, out, (out - count) / 2, count, (side - count) / 2};
}

Axis training_axis(std::int64_t in, std::int64_t shorter, std::int64_t shortest, std::int64_t side) {
  const std::int64_t out =
      in == shorter ? shortest
                    : static_cast<std::int64_t>(static_cast<double>(shortest * in) / static_cast<double>(shorter));
  const std::int64_t over = out - side;
  std::int64_t begin = over / 2;
  if (over % 2 == 1 && begin % 2 == 1) ++begin;  // half to even
  return {in, 0, in, out, begin, side, 0};
}

// With the promotions of the reference (ATen's UpSampleKernel.cpp, _compute_indices_min_size_ weights_aa).
struct Bicubic {
  static constexpr double kSupport = 2.0;

  template <typename Number>
  static Number at(Number x) {
    constexpr Number kA = static_cast<Number>(-0.5);
    x = std::fabs(x);
    if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
    if (x < 2) return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA;
    return 0;
  }
};

struct Bilinear {
  static constexpr double kSupport = 1.0;

  template <typename Number>
  static Number at(Number x) {
    x = std::fabs(x);
    return x < 1 ? 1 - x : 0;
  }
};

// The inputs of one upright output, counted from the first of the axis' part.
struct Output {
  std::int64_t first, count;
};

template <typename Kernel, typename Number>
struct Scale {
  std::int64_t in;
  Number scale, reach, inverse;

  explicit Scale(const Axis& axis)
      : in(axis.part),
        scale(static_cast<Number>(axis.part) / static_cast<Number>(axis.out)),
        reach(scale >= 1 ? static_cast<Number>(Kernel::kSupport * static_cast<double>(scale))
                         : static_cast<Number>(Kernel::kSupport)),
        inverse(scale >= 1 ? static_cast<Number>(1.0 / static_cast<double>(scale)) : 1) {}

  Number centre(std::int64_t output) const {
    return static_cast<Number>(static_cast<double>(scale) * (static_cast<double>(output) + 0.5));
  }
  // No output takes more inputs than this.
  std::int64_t most_taps() const { return std::min(in, static_cast<std::int64_t>(2 * reach) + 2); }

  Output extent(std::int64_t output) const {
    const Number middle = centre(output);
    const auto begin = static_cast<std::int64_t>(static_cast<double>(middle - reach) + 0.5);
    const auto end = static_cast<std::int64_t>(static_cast<double>(middle + reach) + 0.5);
    const std::int64_t first = std::max<std::int64_t>(begin, 0);
    return {first, std::min(std::min(end, in) - first, most_taps())};
  }
  // Normalised weights of one output.
  void weigh(Number* weights, Output extent, std::int64_t output) const {
    const Number middle = centre(output);
    Number sum = 0;
    for (std::int64_t j = 0; j < extent.count; ++j) {
      const Number offset = static_cast<Number>(j + extent.first) - middle;
      weights[j] = Kernel::at(static_cast<Number>((static_cast<double>(offset) + 0.5) * static_cast<double>(inverse)));
      sum += weights[j];
    }
    for (std::int64_t j = 0; j < extent.count; ++j) weights[j] /= sum;
  }
};

// The finest integer weights that still fit 16 bits, from the largest weight of the whole axis, cropped or not.
template <typename Kernel>
int shift_of(double* weights, const Axis& axis, const Scale<Kernel, double>& scale) {
  double largest = 0.0;
  for (std::int64_t i = 0; i < axis.out; ++i) {
    const Output extent = scale.extent(i);
    scale.weigh(weights, extent, i);
    for (std::int64_t j = 0; j < extent.count; ++j) largest = std::max(largest, weights[j]);
  }
  int shift = 0;
  while (shift < kLargestShift && 0.5 + largest * static_cast<double>(1 << (shift + 1)) < 32768.0) ++shift;
  return shift;
}

// The weight as the table holds it.
void store_weight(std::int16_t* to, double weight, int shift) {
  const double scaled = weight * static_cast<double>(1 << shift);
  *to = static_cast<std::int16_t>(scaled < 0.0 ? scaled - 0.5 : scaled + 0.5);
}
template <typename Number>
void store_weight(float* to, Number weight, int) {
  *to = static_cast<float>(weight);
}

template <typename Number, typename Weight>
struct Tables {
  Number* one;  // the weights of one output
  std::int32_t* first;
  std::int32_t* count;
  Weight* weights;
};

// Stored output i, whose extent's first input is `first` as stored.
template <typename Number, typename Weight>
void store_output(const Tables<Number, Weight>& tables, const Taps& taps, std::int64_t i, std::int64_t first,
                  std::int64_t count, const TapRules& rules, std::int64_t in) {
  std::int64_t lead = 0;  // zero weights in front, where the stride would reach past the picture
  if (rules.full_strides)
    lead = std::clamp<std::int64_t>(first + taps.stride - in, 0, std::min(first, taps.stride - count));
  tables.first[i] = static_cast<std::int32_t>(first - lead);
  tables.count[i] = static_cast<std::int32_t>(count + lead);
  Weight* const row = tables.weights + i * taps.stride;
  std::fill_n(row, taps.stride, Weight{0});
  for (std::int64_t j = 0; j < count; ++j) {
    store_weight(row + lead + j, tables.one[rules.mirrored ? count - 1 - j : j], taps.shift);
  }
}

template <typename Kernel, typename Number, typename Weight>
bool fill_taps(Taps* taps, const Weight** weights, Arena* arena, const Axis& axis, const TapRules& rules) {
  const Scale<Kernel, Number> scale(axis);
  const std::int64_t most = scale.most_taps();
  taps->outputs = axis.count;
  taps->stride = (most + rules.tap_unit - 1) / rules.tap_unit * rules.tap_unit;
  const std::size_t outputs = static_cast<std::size_t>(axis.count);
  const Tables<Number, Weight> tables{arena->take_array<Number>(static_cast<std::size_t>(most)),
                                      arena->take_array<std::int32_t>(outputs),
                                      arena->take_array<std::int32_t>(outputs),
                                      arena->take_array<Weight>(outputs * static_cast<std::size_t>(taps->stride))};
  if (tables.one == nullptr || tables.first == nullptr || tables.count == nullptr || tables.weights == nullptr)
    return false;

  if constexpr (std::is_same_v<Weight, std::int16_t>) taps->shift = shift_of(tables.one, axis, scale);
  taps->in_begin = axis.in;
  for (std::int64_t i = 0; i < axis.count; ++i) {
    const std::int64_t upright = axis.begin + (rules.mirrored ? axis.count - 1 - i : i);
    const Output extent = scale.extent(upright);
    scale.weigh(tables.one, extent, upright);
    const std::int64_t upright_first = axis.from + extent.first;
    const std::int64_t first = rules.mirrored ? axis.in - upright_first - extent.count : upright_first;
    store_output(tables, *taps, i, first, extent.count, rules, axis.in);
    taps->in_begin = std::min<std::int64_t>(taps->in_begin, tables.first[i]);
    const std::int64_t read_end = rules.full_strides ? tables.first[i] + taps->stride : first + extent.count;
    taps->in_end = std::max(taps->in_end, std::min(read_end, axis.in));
  }
  for (std::int64_t i = 0; i < axis.count; ++i) tables.first[i] -= static_cast<std::int32_t>(taps->in_begin);
  taps->first = tables.first;
  taps->count = tables.count;
  *weights = tables.weights;
  return true;
}

}  // namespace

Geometry training_geometry(std::int64_t width, std::int64_t height, std::int64_t shortest, std::int64_t side) noexcept {
  const Size limit = processor_size(width, height, kElongationSize);
  const std::uint32_t most = most_elongated(kElongationSize);
  if (limit.width == 0 || limit.height == 0) return Geometry{{}, {}, most};
  const std::int64_t shorter = std::min(width, height);
  return {training_axis(width, shorter, shortest, side), training_axis(height, shorter, shortest, side), most};
}

Geometry processor_geometry(std::int64_t width, std::int64_t height, std::int64_t side,
                            const ProcessorSize& size) noexcept {
  const Size resized = processor_size(width, height, size);
  return {processor_axis(width, resized.width, side), processor_axis(height, resized.height, side),
          most_elongated(size)};
}

bool make_taps(Taps* taps, Arena* arena, const Axis& axis, const TapRules& rules) noexcept {
  *taps = Taps{};
  const float** const weights = &taps->float_weights;
  switch (rules.filter) {
    case Filter::kBicubicBytes: return fill_taps<Bicubic, double>(taps, &taps->byte_weights, arena, axis, rules);
    case Filter::kBilinearBytes: return fill_taps<Bilinear, double>(taps, &taps->byte_weights, arena, axis, rules);
    case Filter::kBicubic: return fill_taps<Bicubic, float>(taps, weights, arena, axis, rules);
    case Filter::kBilinear: return fill_taps<Bilinear, float>(taps, weights, arena, axis, rules);
    case Filter::kExactBicubic: return fill_taps<Bicubic, double>(taps, weights, arena, axis, rules);
    case Filter::kExactBilinear: return fill_taps<Bilinear, double>(taps, weights, arena, axis, rules);
  }
  return false;
}

}  // namespace bascule::codec
