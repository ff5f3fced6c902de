// SPDX-License-Identifier: Apache-2.0
// Filling, adding, copying, sums down columns, blending.
#include <cstdint>

#include "kernels/simd/kernels.h"
#include "kernels/simd/rows.h"

namespace bascule::BASCULE_ISA {

void fill(const Fill& a) { fill_row(a.x, a.count, a.value); }

void add(const Add& a) {
  for_lanes(
      a.count, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
        store(a.out + i, lanes, load(a.a + i, lanes) + load(a.b + i, lanes));
      });
}

void scale(const Scale& a) {
  const f32x16 factor = set(a.factor);
  for_lanes(
      a.count, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
        const f32x16 scaled = factor * load(a.x + i, lanes);
        store(a.out + i, lanes, a.accumulate ? load(a.out + i, lanes) + scaled : scaled);
      });
}

void copy_rows(const CopyRows& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    if (a.accumulate) {
      add_to_row(a.out + r * a.out_stride, a.x + r * a.x_stride, a.cols);
    } else {
      copy_row(a.out + r * a.out_stride, a.x + r * a.x_stride, a.cols);
    }
  }
}

void column_sums(const ColumnSums& a) {
  fill_row(a.part, a.cols, 0.0f);
  a.x.is_bf16() ? add_rows(a.part, a.x.bf16(), a.rows, a.cols, a.stride)
                : add_rows(a.part, a.x.float32(), a.rows, a.cols, a.stride);
}

void add_parts(const AddParts& a) {
  if (!a.accumulate) fill_row(a.out, a.cols, 0.0f);
  add_rows(a.out, a.parts, a.count, a.cols, a.stride);
}

namespace {

// Four cache lines of a span: so many loads of one term are under way at once.
struct Lines {
  f32x16 a, b, c, d;
};

inline __attribute__((always_inline)) Lines operator+(const Lines& x, const Lines& y) {
  return {x.a + y.a, x.b + y.b, x.c + y.c, x.d + y.d};
}

// The tree over a few terms written out; term(t) reads one.
template <std::int64_t kFirst, std::int64_t kCount, typename Term>
inline __attribute__((always_inline)) auto tree(const Term& term) {
  if constexpr (kCount == 1) {
    return term(kFirst);
  } else {
    static_assert(kCount <= 4);
    constexpr std::int64_t kLeft = kCount > 2 ? 2 : 1;
    return tree<kFirst, kLeft>(term) + tree<kFirst + kLeft, kCount - kLeft>(term);
  }
}

// The tree over any number of terms, walked as one counts in binary: whole[level] is the sum of 2^level of them.
template <typename Term>
inline __attribute__((always_inline)) auto tree(std::int64_t count, const Term& term) {
  decltype(term(0)) whole[kSumTermsLevels];
  auto sum = term(0);
  for (std::int64_t t = 0;; sum = term(++t)) {
    int level = 0;
    for (; (t >> level & 1) != 0; ++level) sum = whole[level] + sum;
    if (t + 1 == count) {
      for (++level; count >> level != 0; ++level) sum = (count >> level & 1) != 0 ? whole[level] + sum : sum;
      return sum;
    }
    whole[level] = sum;
  }
}

// All terms of an element are read before it is written, so that `out` may be one of them.
template <typename Tree>
inline __attribute__((always_inline)) void sum_terms_by(const SumTerms& a, const Tree& tree_of) {
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= a.count; i += 4 * kLanes) {
    const Lines sum = tree_of([&](std::int64_t t) __attribute__((always_inline)) {
      const float* const x = a.terms[t] + i;
      return Lines{load(x), load(x + kLanes), load(x + 2 * kLanes), load(x + 3 * kLanes)};
    });
    store(a.out + i, sum.a);
    store(a.out + i + kLanes, sum.b);
    store(a.out + i + 2 * kLanes, sum.c);
    store(a.out + i + 3 * kLanes, sum.d);
  }
  for_lanes(
      a.count - i, [&](auto lanes, std::int64_t rest) __attribute__((always_inline)) {
        store(a.out + i + rest, lanes, tree_of([&](std::int64_t t) { return load(a.terms[t] + i + rest, lanes); }));
      });
}

}  // namespace

void sum_terms(const SumTerms& a) {
  switch (a.term_count) {
    case 1: return sum_terms_by(a, [](const auto& term) { return tree<0, 1>(term); });
    case 2: return sum_terms_by(a, [](const auto& term) { return tree<0, 2>(term); });
    case 3: return sum_terms_by(a, [](const auto& term) { return tree<0, 3>(term); });
    case 4: return sum_terms_by(a, [](const auto& term) { return tree<0, 4>(term); });
    default: return sum_terms_by(a, [&](const auto& term) { return tree(a.term_count, term); });
  }
}

void blend_forward(const BlendForward& a) {
  const f32x16 weight_a = set(a.weight_a);
  const f32x16 weight_c = set(a.weight_c);
  for_lanes(
      a.count, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
        store(a.out + i, lanes, fma(load(a.a + i, lanes), weight_a, load(a.c + i, lanes) * weight_c));
      });
}

namespace {

// out (+)= d * weight
template <typename Lanes>
inline void blend_gradient(float* out, Lanes lanes, f32x16 d, float weight, bool accumulate) {
  store(out, lanes, accumulate ? fma(d, set(weight), load(out, lanes)) : d * set(weight));
}

}  // namespace

// The dots run over a whole tensor: in float32 their error would grow with its size, and float64 lanes cost nothing
// here.
void blend_backward(const BlendBackward& a) {
  f64x16 dot_a = set_f64(0.0);
  f64x16 dot_c = set_f64(0.0);
  for_lanes(
      a.count, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
        const f32x16 d = load(a.d_out + i, lanes);
        if (a.dot_a != nullptr) dot_a = fma(to_f64(d), to_f64(load(a.a + i, lanes)), dot_a);
        if (a.dot_c != nullptr) dot_c = fma(to_f64(d), to_f64(load(a.c + i, lanes)), dot_c);
        if (a.d_a != nullptr) blend_gradient(a.d_a + i, lanes, d, a.weight_a, a.accumulate_a);
        if (a.d_c != nullptr) blend_gradient(a.d_c + i, lanes, d, a.weight_c, a.accumulate_c);
      });
  if (a.dot_a != nullptr) *a.dot_a = static_cast<float>(horizontal_sum(dot_a));
  if (a.dot_c != nullptr) *a.dot_c = static_cast<float>(horizontal_sum(dot_c));
}

}  // namespace bascule::BASCULE_ISA
