// SPDX-License-Identifier: Apache-2.0
// Each function: reduce the argument to a short interval, exactly or nearly so; sum a Taylor series there, its leading
// terms in pairs of doubles; undo the reduction. The tail of a series weighs so little that plain doubles lose no more
// than 2^-64 of the result in it.
#include "src/base/elementary.h"

#include <cfenv>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>

namespace bascule {
namespace {

static_assert(FLT_EVAL_METHOD == 0, "an operation on doubles rounds to double");

// The unevaluated sum of two doubles, |low| <= half an ulp of high.
struct Wide {
  double high, low;
};

// Exact where |a| >= |b| (Dekker 1971).
Wide sum_of_ordered(double a, double b) {
  const double high = a + b;
  return {high, b - (high - a)};
}
// Exact (Knuth 1969).
Wide sum_of(double a, double b) {
  const double high = a + b, of_b = high - a;
  return {high, (a - (high - of_b)) + (b - of_b)};
}
// The upper 26 bits of a number below 2^996 (Veltkamp 1968).
double upper_half(double a) {
  const double scaled = 134217729.0 * a;
  return scaled - (scaled - a);
}
// Exact but for underflow (Dekker 1971).
Wide product_of(double a, double b) {
  const double high = a * b;
  const double a_high = upper_half(a), b_high = upper_half(b), a_low = a - a_high, b_low = b - b_high;
  return {high, ((a_high * b_high - high) + a_high * b_low + a_low * b_high) + a_low * b_low};
}
Wide operator+(Wide a, Wide b) {
  const Wide sum = sum_of(a.high, b.high);
  return sum_of_ordered(sum.high, sum.low + (a.low + b.low));
}
Wide operator*(Wide a, Wide b) {
  const Wide product = product_of(a.high, b.high);
  return sum_of_ordered(product.high, product.low + (a.high * b.low + a.low * b.high));
}

// leading[0] + leading[1] x + ... + tail[0] x^kLeading + tail[1] x^(kLeading + 1) + ...
template <int kTail>
double series(double x, const double (&tail)[kTail]) {
  double sum = tail[kTail - 1];
  for (int i = kTail - 2; i >= 0; --i) sum = sum * x + tail[i];
  return sum;
}
template <int kLeading, int kTail>
Wide series(Wide x, const Wide (&leading)[kLeading], const double (&tail)[kTail]) {
  Wide sum = sum_of(leading[kLeading - 1].high, series(x.high, tail) * x.high);
  sum.low += leading[kLeading - 1].low;
  for (int i = kLeading - 2; i >= 0; --i) sum = leading[i] + sum * x;
  return sum;
}
// The same in plain doubles.
template <int kLeading, int kTail>
double series(double x, const Wide (&leading)[kLeading], const double (&tail)[kTail]) {
  double sum = series(x, tail);
  for (int i = kLeading - 1; i >= 0; --i) sum = sum * x + leading[i].high;
  return sum;
}

// ln 2 and pi / 2 as sums. n times all parts but the last is exact for the n that occur.
constexpr double kInverseLn2 = 0x1.71547652b82fep+0;
constexpr double kLn2High = 0x1.62e42fefa2000p-1, kLn2Low = 0x1.9ef35793c7673p-41;
constexpr double kInverseHalfPi = 0x1.45f306dc9c883p-1;
constexpr double kHalfPiHigh = 0x1.921fb54400000p+0, kHalfPiMiddle = 0x1.0b4611a600000p-34,
                 kHalfPiLow = 0x1.3198a2e037073p-69;

// 1 / n!, 1 / (2 n + 1), and the alternating 1 / (2 n)! and 1 / (2 n + 1)!.
constexpr Wide kExpLeading[] = {{1.0, 0.0},
                                {1.0, 0.0},
                                {0x1.0000000000000p-1, 0.0},
                                {0x1.5555555555555p-3, 0x1.5555555555555p-57},
                                {0x1.5555555555555p-5, 0x1.5555555555555p-59}};
constexpr double kExpTail[] = {
    0x1.1111111111111p-7,  0x1.6c16c16c16c17p-10, 0x1.a01a01a01a01ap-13, 0x1.a01a01a01a01ap-16, 0x1.71de3a556c734p-19,
    0x1.27e4fb7789f5cp-22, 0x1.ae64567f544e4p-26, 0x1.1eed8eff8d898p-29, 0x1.6124613a86d09p-33, 0x1.93974a8c07c9dp-37,
    0x1.ae7f3e733b81fp-41, 0x1.ae7f3e733b81fp-45, 0x1.952c77030ad4ap-49};
constexpr Wide kLogLeading[] = {
    {1.0, 0.0}, {0x1.5555555555555p-2, 0x1.5555555555555p-56}, {0x1.999999999999ap-3, -0x1.999999999999ap-57}};
constexpr double kLogTail[] = {0x1.2492492492492p-3, 0x1.c71c71c71c71cp-4, 0x1.745d1745d1746p-4, 0x1.3b13b13b13b14p-4,
                               0x1.1111111111111p-4, 0x1.e1e1e1e1e1e1ep-5, 0x1.af286bca1af28p-5, 0x1.8618618618618p-5,
                               0x1.642c8590b2164p-5, 0x1.47ae147ae147bp-5, 0x1.2f684bda12f68p-5};
constexpr Wide kCosLeading[] = {
    {1.0, 0.0}, {-0x1.0000000000000p-1, 0.0}, {0x1.5555555555555p-5, 0x1.5555555555555p-59}};
constexpr double kCosTail[] = {-0x1.6c16c16c16c17p-10, 0x1.a01a01a01a01ap-16,  -0x1.27e4fb7789f5cp-22,
                               0x1.1eed8eff8d898p-29,  -0x1.93974a8c07c9dp-37, 0x1.ae7f3e733b81fp-45,
                               -0x1.6827863b97d97p-53, 0x1.e542ba4020225p-62};
constexpr Wide kSinLeading[] = {
    {1.0, 0.0}, {-0x1.5555555555555p-3, -0x1.5555555555555p-57}, {0x1.1111111111111p-7, 0x1.1111111111111p-63}};
constexpr double kSinTail[] = {-0x1.a01a01a01a01ap-13, 0x1.71de3a556c734p-19,  -0x1.ae64567f544e4p-26,
                               0x1.6124613a86d09p-33,  -0x1.ae7f3e733b81fp-41, 0x1.952c77030ad4ap-49,
                               -0x1.2f49b46814157p-57, 0x1.71b8ef6dcf572p-66};

// The integer nearest to x, |x| < 2^51; ties go to the even one.
double nearest_integer(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

double power_of_two(int exponent) {  // -1022 .. 1023
  const std::uint64_t bits = static_cast<std::uint64_t>(exponent + 1023) << 52;
  double power;
  std::memcpy(&power, &bits, sizeof power);
  return power;
}

// e^x for a finite x. With n = x / ln 2, rounded, x - n ln 2 is exact but for 2^-85.
double exp_of(Wide x) {
  if (x.high > 710.0) return std::numeric_limits<double>::infinity();
  if (x.high < -746.0) return 0.0;
  const double n = nearest_integer(x.high * kInverseLn2);
  const Wide r = sum_of(x.high - n * kLn2High, x.low - n * kLn2Low);
  const Wide power = series(r, kExpLeading, kExpTail);
  const int exponent = static_cast<int>(n), half = exponent / 2;
  return power.high * power_of_two(half) * power_of_two(exponent - half);
}

// x = 2^exponent m with sqrt(1/2) <= m < sqrt 2, for a normal x > 0.
struct Scaled {
  double m, exponent;
};
Scaled scaled(double x) {
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  constexpr std::uint64_t kSquareRootOfHalf = 0x3fe6a09e667f3bcd;
  const std::int64_t exponent = static_cast<std::int64_t>(bits - kSquareRootOfHalf) >> 52;
  bits -= static_cast<std::uint64_t>(exponent) << 52;
  double m;
  std::memcpy(&m, &bits, sizeof m);
  return {m, static_cast<double>(exponent)};
}

// log x for a finite x > 0: log m = 2 artanh s with s = (m - 1) / (m + 1).
Wide log_of(double x) {
  const bool is_subnormal = x < std::numeric_limits<double>::min();
  const Scaled y = scaled(is_subnormal ? x * 0x1p54 : x);
  const double difference = y.m - 1.0;
  const Wide sum = sum_of(y.m, 1.0);
  const double quotient = difference / sum.high;
  const Wide back = product_of(quotient, sum.high);
  const Wide s = sum_of_ordered(quotient, ((difference - back.high) - back.low - quotient * sum.low) / sum.high);
  const Wide half = s * series(s * s, kLogLeading, kLogTail);
  const double exponent = is_subnormal ? y.exponent - 54.0 : y.exponent;
  return sum_of(exponent * kLn2High, exponent * kLn2Low) + Wide{2.0 * half.high, 2.0 * half.low};
}

// Sine for offset 0, cosine for offset 1: x = r + n pi / 2 lies in quadrant n, |r| <= pi / 4.
double sine_of(double x, int offset) {
  const double n = nearest_integer(x * kInverseHalfPi);
  const Wide upper = sum_of(x - n * kHalfPiHigh, -n * kHalfPiMiddle);
  const Wide r = sum_of(upper.high, upper.low - n * kHalfPiLow);
  const int quadrant = (static_cast<int>(n) + offset) & 3;
  const Wide square = r * r;
  const double value =
      quadrant % 2 == 0 ? (r * series(square, kSinLeading, kSinTail)).high : series(square, kCosLeading, kCosTail).high;
  return quadrant < 2 ? value : -value;
}

}  // namespace

double fixed_exp(double x) noexcept { return x == x ? exp_of({x, 0.0}) : x; }

double fixed_log(double x) noexcept {
  if (!(x > 0.0)) return x == 0.0 ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  return x <= std::numeric_limits<double>::max() ? log_of(x).high : x;
}

double fixed_power(double base, double exponent) noexcept {
  if (exponent == 0.0) return 1.0;
  if (base == 0.0) return 0.0;
  return exp_of(log_of(base) * Wide{exponent, 0.0});
}

double fixed_cos(double x) noexcept { return sine_of(x, 1); }
double fixed_sin(double x) noexcept { return sine_of(x, 0); }

// The functions above in plain doubles: the results become floats, by the hundred million.
void fixed_normal_pair(std::uint32_t a, std::uint32_t b, double* first, double* second) noexcept {
  const Scaled u = scaled((static_cast<double>(a) + 0.5) / 4294967296.0);
  const double s = (u.m - 1.0) / (u.m + 1.0);
  const double log = u.exponent * kLn2High + (u.exponent * kLn2Low + 2.0 * s * series(s * s, kLogLeading, kLogTail));
  const double radius = std::sqrt(-2.0 * log);
  const double angle = 6.283185307179586 * (static_cast<double>(b) + 0.5) / 4294967296.0;
  const double n = nearest_integer(angle * kInverseHalfPi);
  const double r = (angle - n * kHalfPiHigh) - n * (kHalfPiMiddle + kHalfPiLow);
  const double sine = r * series(r * r, kSinLeading, kSinTail), cosine = series(r * r, kCosLeading, kCosTail);
  const int quadrant = static_cast<int>(n) & 3;
  const double along = quadrant % 2 == 0 ? cosine : sine, across = quadrant % 2 == 0 ? sine : cosine;
  *first = radius * (quadrant == 1 || quadrant == 2 ? -along : along);
  *second = radius * (quadrant >= 2 ? -across : across);
}

void fill_normal(float* destination, std::int64_t first, std::int64_t count, double deviation, PhiloxKey key,
                 std::uint64_t stream) noexcept {
  const std::int64_t end = first + count;
  for (std::int64_t block = first / 4; 4 * block < end; ++block) {
    const auto number = static_cast<std::uint64_t>(block);
    const PhiloxBlock words =
        philox4x32({{static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32),
                     static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)}},
                   key);
    double values[4];
    fixed_normal_pair(words.word[0], words.word[1], &values[0], &values[1]);
    fixed_normal_pair(words.word[2], words.word[3], &values[2], &values[3]);
    for (std::int64_t k = 0; k < 4; ++k) {
      const std::int64_t element = 4 * block + k;
      if (element >= first && element < end) destination[element - first] = static_cast<float>(deviation * values[k]);
    }
  }
}

// The C library's default environment includes the bits that flush subnormals: MXCSR on x86-64, FPCR on aarch64.
void use_default_float_environment() noexcept { std::fesetenv(FE_DFL_ENV); }

}  // namespace bascule
