// SPDX-License-Identifier: Apache-2.0
// Dual: a value and its derivative by one input. A forward reference is a template on its number type; run on Duals it
// gives the exact derivative along one direction, and no finite difference is needed.
//
//   std::vector<Dual> x = constants(values);
//   x[3].derivative = 1.0;                   // differentiate by x[3]
//   reference::gelu_forward(y.data(), x.data(), n);
//   EXPECT_NEAR(y[k].derivative, d_x_of_our_backward, 1e-12);
//
// Functions are found by argument: a reference writes `using std::exp; ... exp(x)`. Comparisons look at values alone.
#pragma once

#include <cmath>
#include <vector>

namespace bascule::test {

struct Dual {
  double value = 0.0;
  double derivative = 0.0;

  constexpr Dual() = default;
  constexpr Dual(double constant) : value(constant) {}  // implicit: references mix numbers and constants
  constexpr Dual(double v, double d) : value(v), derivative(d) {}

  constexpr Dual& operator+=(Dual b) { return *this = Dual(value + b.value, derivative + b.derivative); }
  constexpr Dual& operator-=(Dual b) { return *this = Dual(value - b.value, derivative - b.derivative); }
  constexpr Dual& operator*=(Dual b) {
    return *this = Dual(value * b.value, derivative * b.value + value * b.derivative);
  }
  constexpr Dual& operator/=(Dual b) {
    return *this = Dual(value / b.value, (derivative - value / b.value * b.derivative) / b.value);
  }
  constexpr Dual operator-() const { return Dual(-value, -derivative); }
  constexpr Dual operator+() const { return *this; }
  explicit constexpr operator double() const { return value; }
  explicit constexpr operator float() const { return static_cast<float>(value); }
};

constexpr Dual operator+(Dual a, Dual b) { return a += b; }
constexpr Dual operator-(Dual a, Dual b) { return a -= b; }
constexpr Dual operator*(Dual a, Dual b) { return a *= b; }
constexpr Dual operator/(Dual a, Dual b) { return a /= b; }
constexpr bool operator<(Dual a, Dual b) { return a.value < b.value; }
constexpr bool operator>(Dual a, Dual b) { return a.value > b.value; }
constexpr bool operator<=(Dual a, Dual b) { return a.value <= b.value; }
constexpr bool operator>=(Dual a, Dual b) { return a.value >= b.value; }

inline Dual exp(Dual x) {
  const double e = std::exp(x.value);
  return Dual(e, e * x.derivative);
}
inline Dual log(Dual x) { return Dual(std::log(x.value), x.derivative / x.value); }
inline Dual log1p(Dual x) { return Dual(std::log1p(x.value), x.derivative / (1.0 + x.value)); }
inline Dual sqrt(Dual x) {
  const double root = std::sqrt(x.value);
  return Dual(root, x.derivative / (2.0 * root));
}
inline Dual tanh(Dual x) {
  const double t = std::tanh(x.value);
  return Dual(t, (1.0 - t * t) * x.derivative);
}
inline Dual erf(Dual x) {
  const double two_over_sqrt_pi = 1.12837916709551257390;
  return Dual(std::erf(x.value), two_over_sqrt_pi * std::exp(-x.value * x.value) * x.derivative);
}
// x to a constant power.
inline Dual pow(Dual x, double power) {
  return Dual(std::pow(x.value, power), power * std::pow(x.value, power - 1.0) * x.derivative);
}
inline Dual abs(Dual x) { return x.value < 0.0 ? -x : x; }
// Where both are equal the first wins, as in `a < b ? b : a`.
constexpr Dual max(Dual a, Dual b) { return a.value < b.value ? b : a; }
constexpr Dual min(Dual a, Dual b) { return b.value < a.value ? b : a; }

template <typename Number>
std::vector<Dual> constants(const std::vector<Number>& values) {
  return std::vector<Dual>(values.begin(), values.end());
}

}  // namespace bascule::test
