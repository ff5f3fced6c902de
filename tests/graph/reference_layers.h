// SPDX-License-Identifier: Apache-2.0
// The layers in plain loops over any number type, written from the equations and nothing of ours: on Duals they give
// exact derivatives.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/activation.h"
#include "tests/support/dual.h"

namespace bascule::test {

template <typename Number>
struct Matrix {
  std::int64_t rows = 0, cols = 0;
  std::vector<Number> values;

  Matrix() = default;
  Matrix(std::int64_t r, std::int64_t c) : rows(r), cols(c), values(static_cast<std::size_t>(r * c)) {}
  Number& operator()(std::int64_t r, std::int64_t c) { return values[static_cast<std::size_t>(r * cols + c)]; }
  const Number& operator()(std::int64_t r, std::int64_t c) const {
    return values[static_cast<std::size_t>(r * cols + c)];
  }
};

// x W^T + b; bias may be empty.
template <typename Number>
Matrix<Number> linear_of(const Matrix<Number>& x, const Matrix<Number>& weight, const Matrix<Number>& bias = {}) {
  Matrix<Number> y(x.rows, weight.rows);
  for (std::int64_t r = 0; r < y.rows; ++r) {
    for (std::int64_t o = 0; o < y.cols; ++o) {
      Number sum = bias.rows > 0 ? bias(0, o) : Number(0.0);
      for (std::int64_t i = 0; i < x.cols; ++i) sum += x(r, i) * weight(o, i);
      y(r, o) = sum;
    }
  }
  return y;
}

template <typename Number>
Matrix<Number> layer_norm_of(const Matrix<Number>& x, const Matrix<Number>& weight, const Matrix<Number>& bias,
                             double epsilon) {
  using std::sqrt;
  Matrix<Number> y(x.rows, x.cols);
  const double width = static_cast<double>(x.cols);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    Number mean = 0.0, variance = 0.0;
    for (std::int64_t c = 0; c < x.cols; ++c) mean += x(r, c) / Number(width);
    for (std::int64_t c = 0; c < x.cols; ++c) variance += (x(r, c) - mean) * (x(r, c) - mean) / Number(width);
    for (std::int64_t c = 0; c < x.cols; ++c)
      y(r, c) = (x(r, c) - mean) / sqrt(variance + Number(epsilon)) * weight(0, c) + bias(0, c);
  }
  return y;
}

template <typename Number>
Matrix<Number> rms_norm_of(const Matrix<Number>& x, const Matrix<Number>& weight, double epsilon) {
  using std::sqrt;
  Matrix<Number> y(x.rows, x.cols);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    Number squares = 0.0;
    for (std::int64_t c = 0; c < x.cols; ++c) squares += x(r, c) * x(r, c) / Number(static_cast<double>(x.cols));
    for (std::int64_t c = 0; c < x.cols; ++c) y(r, c) = x(r, c) / sqrt(squares + Number(epsilon)) * weight(0, c);
  }
  return y;
}

template <typename Number>
Number activation_of(Number x, Activation kind) {
  using std::erf;
  using std::exp;
  using std::tanh;
  const Number one = 1.0, half = 0.5;
  switch (kind) {
    case Activation::kGelu: return half * x * (one + erf(x / Number(std::sqrt(2.0))));
    case Activation::kGeluTanh:
      return half * x *
             (one + tanh(Number(std::sqrt(2.0 / 3.14159265358979323846)) * (x + Number(0.044715) * x * x * x)));
    case Activation::kQuickGelu: return x / (one + exp(Number(-1.702) * x));
    case Activation::kRelu: return x > Number(0.0) ? x : Number(0.0);
    case Activation::kSilu: return x / (one + exp(-x));
    case Activation::kTanh: return tanh(x);
    case Activation::kSigmoid: return one / (one + exp(-x));
    case Activation::kLinear: return x;
  }
  return x;
}

// The columns [first, first + count) and rows [from, from + rows) of x.
template <typename Number>
Matrix<Number> block_of(const Matrix<Number>& x, std::int64_t from, std::int64_t rows, std::int64_t first,
                        std::int64_t count) {
  Matrix<Number> y(rows, count);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < count; ++c) y(r, c) = x(from + r, first + c);
  }
  return y;
}

// softmax(q k^T / sqrt(size)) v of one sample and one head.
template <typename Number>
Matrix<Number> one_head_of(const Matrix<Number>& q, const Matrix<Number>& k, const Matrix<Number>& v) {
  using std::exp;
  Matrix<Number> out(q.rows, v.cols);
  for (std::int64_t i = 0; i < q.rows; ++i) {
    std::vector<Number> weight;
    Number sum = 0.0;
    for (std::int64_t j = 0; j < k.rows; ++j) {
      Number score = 0.0;
      for (std::int64_t c = 0; c < q.cols; ++c) score += q(i, c) * k(j, c);
      weight.push_back(exp(score / Number(std::sqrt(static_cast<double>(q.cols)))));
      sum += weight.back();
    }
    for (std::int64_t c = 0; c < v.cols; ++c) {
      for (std::int64_t j = 0; j < k.rows; ++j) out(i, c) += weight[static_cast<std::size_t>(j)] / sum * v(j, c);
    }
  }
  return out;
}

// Mean over rows of -log softmax at the label, of which `smoothing` is spread over all classes; negative labels are not
// counted.
template <typename Number>
Number cross_entropy_of(const Matrix<Number>& logits, const std::vector<std::int32_t>& labels, double smoothing = 0.0) {
  using std::exp;
  using std::log;
  Number total = 0.0;
  double counted = 0.0;
  for (std::int64_t r = 0; r < logits.rows; ++r) {
    const std::int32_t label = labels[static_cast<std::size_t>(r)];
    if (label < 0) continue;
    Number sum = 0.0;
    Number mean = 0.0;
    for (std::int64_t c = 0; c < logits.cols; ++c) {
      sum += exp(logits(r, c));
      mean += logits(r, c) / Number(static_cast<double>(logits.cols));
    }
    total += log(sum) - Number(1.0 - smoothing) * logits(r, label) - Number(smoothing) * mean;
    counted += 1.0;
  }
  return counted > 0.0 ? total / Number(counted) : Number(0.0);
}

template <typename Number>
Matrix<Number> normalized_of(const Matrix<Number>& x) {
  using std::sqrt;
  Matrix<Number> y(x.rows, x.cols);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    Number squares = 0.0;
    for (std::int64_t c = 0; c < x.cols; ++c) squares += x(r, c) * x(r, c);
    for (std::int64_t c = 0; c < x.cols; ++c) y(r, c) = x(r, c) / sqrt(squares);
  }
  return y;
}

// Keys' bicubic kernel with a = -0.75, as torch.nn.functional.interpolate(mode="bicubic", align_corners=False) has it.
inline double bicubic_weight(double distance) {
  const double a = -0.75, d = std::fabs(distance);
  if (d <= 1.0) return (a + 2.0) * d * d * d - (a + 3.0) * d * d + 1.0;
  return d < 2.0 ? a * d * d * d - 5.0 * a * d * d + 8.0 * a * d - 4.0 * a : 0.0;
}

// A square table of positions behind its class row, resized to height x width.
template <typename Number>
Matrix<Number> resized_of(const Matrix<Number>& table, std::int64_t side, std::int64_t height, std::int64_t width,
                          std::int64_t class_rows) {
  Matrix<Number> out(height * width + class_rows, table.cols);
  for (std::int64_t c = 0; c < table.cols; ++c) {
    for (std::int64_t row = 0; row < class_rows; ++row) out(row, c) = table(row, c);
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        const double at_y =
            (static_cast<double>(y) + 0.5) * static_cast<double>(side) / static_cast<double>(height) - 0.5;
        const double at_x =
            (static_cast<double>(x) + 0.5) * static_cast<double>(side) / static_cast<double>(width) - 0.5;
        // Samples beyond the border repeat it.
        for (std::int64_t i = -3; i < side + 3; ++i) {
          for (std::int64_t j = -3; j < side + 3; ++j) {
            const double weight =
                bicubic_weight(at_y - static_cast<double>(i)) * bicubic_weight(at_x - static_cast<double>(j));
            if (weight == 0.0) continue;
            const std::int64_t row = i < 0 ? 0 : i < side ? i : side - 1, col = j < 0 ? 0 : j < side ? j : side - 1;
            out(class_rows + y * width + x, c) += Number(weight) * table(class_rows + row * side + col, c);
          }
        }
      }
    }
  }
  return out;
}

}  // namespace bascule::test
