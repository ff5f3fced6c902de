// SPDX-License-Identifier: Apache-2.0
// The products of kernels/gemm/gemm.h in float64, by Eigen: the oracle of its tests, and the bound a float32 result
// must keep.
#pragma once

#include <Eigen/Core>
#include <cstdint>

#include "kernels/gemm/gemm.h"
#include "tests/support/error_bound.h"

namespace bascule::test {

using MatrixF64 = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

struct GemmTruth {
  MatrixF64 value;
  MatrixF64 bound;  // of the absolute error, element by element
};

inline MatrixF64 rows_of(const float* data, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  using Strided =
      Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0, Eigen::OuterStride<>>;
  return Strided(data, rows, columns, Eigen::OuterStride<>(stride)).cast<double>();
}

// C after `run` over the valid rows. `before` is what C holds before an accumulating run.
// Bound: a sum of K products, each rounded or fused, in any order errs by at most K epsilon sum |a b|; bias, what C
// held before, and one addition a chunk of 256 rows round as further terms. The second order in epsilon is covered by
// the last term of `roundings`.
inline GemmTruth eigen_gemm(const GemmSpec& spec, const GemmRun& run, const MatrixF64& before) {
  MatrixF64 left;
  MatrixF64 right;
  if (spec.kind == GemmKind::kForward) {
    left = rows_of(run.a.float32(), run.rows, spec.k, spec.lda);
    right = rows_of(run.b.float32(), spec.n, spec.k, spec.ldb).transpose();
  } else if (spec.kind == GemmKind::kInputGradient) {
    left = rows_of(run.a.float32(), run.rows, spec.k, spec.lda);
    right = rows_of(run.b.float32(), spec.k, spec.n, spec.ldb);
  } else {
    left = rows_of(run.a.float32(), run.rows, spec.n, spec.lda).transpose();
    right = rows_of(run.b.float32(), run.rows, spec.k, spec.ldb);
  }
  GemmTruth truth;
  truth.value = left * right;
  MatrixF64 magnitude = left.cwiseAbs() * right.cwiseAbs();
  if (spec.bias) {
    const MatrixF64 bias = rows_of(run.bias, 1, spec.n, spec.n);
    truth.value.rowwise() += bias.row(0);
    magnitude.rowwise() += bias.cwiseAbs().row(0);
  }
  if (run.accumulate) {
    truth.value += before;
    magnitude += before.cwiseAbs();
  }
  const double roundings = static_cast<double>(left.cols()) * 257.0 / 256.0 + 3.0;
  truth.bound = roundings * kFloatEpsilon * magnitude;
  return truth;
}

}  // namespace bascule::test
