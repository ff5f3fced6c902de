// SPDX-License-Identifier: Apache-2.0
// One order of additions on every CPU: vector instructions differ in width.
#ifdef EIGEN_CORE_H
#error "a file of the same group includes Eigen with vector instructions"
#endif
#define EIGEN_DONT_VECTORIZE
// Code under other licences than the one that NOTICE names does not compile.
#define EIGEN_MPL2_ONLY

#include "src/base/principal_components.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "src/base/check.h"

namespace bascule {
namespace {

void centre(double* centred, const float* row, const std::vector<double>& mean) {
  for (std::size_t c = 0; c < mean.size(); ++c) centred[c] = static_cast<double>(row[c]) - mean[c];
}

std::vector<double> mean_of(const std::vector<const float*>& rows, std::size_t width) {
  std::vector<double> mean(width, 0.0);
  for (const float* const row : rows) {
    for (std::size_t c = 0; c < width; ++c) mean[c] += static_cast<double>(row[c]);
  }
  for (double& value : mean) value /= static_cast<double>(rows.size());
  return mean;
}

// The lower triangle: an element is a sum over the rows in their order.
Eigen::MatrixXd covariance_of(const std::vector<const float*>& rows, const std::vector<double>& mean) {
  const std::size_t width = mean.size();
  Eigen::MatrixXd covariance =
      Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(width), static_cast<Eigen::Index>(width));
  std::vector<double> centred(width);
  for (const float* const row : rows) {
    centre(centred.data(), row, mean);
    for (std::size_t c = 0; c < width; ++c) {
      double* const column = covariance.data() + c * width;
      for (std::size_t r = c; r < width; ++r) column[r] += centred[c] * centred[r];
    }
  }
  return covariance / static_cast<double>(rows.size());
}

std::vector<double> with_fixed_sign(std::vector<double> axis) {
  const auto largest =
      std::max_element(axis.begin(), axis.end(), [](double a, double b) { return std::fabs(a) < std::fabs(b); });
  if (*largest < 0.0) {
    for (double& value : axis) value = -value;
  }
  return axis;
}

double dot(const double* a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t c = 0; c < b.size(); ++c) sum += a[c] * b[c];
  return sum;
}

}  // namespace

PrincipalPlane::Place PrincipalPlane::place_of(Span<const float> row) const {
  BASCULE_CHECK(row.size() == mean.size());
  std::vector<double> centred(mean.size());
  centre(centred.data(), row.data(), mean);
  return {dot(centred.data(), axes[0]), dot(centred.data(), axes[1])};
}

PrincipalPlane principal_plane(const std::vector<const float*>& rows, std::int64_t width) {
  BASCULE_CHECK(!rows.empty() && width >= 2);
  PrincipalPlane plane;
  plane.mean = mean_of(rows, static_cast<std::size_t>(width));
  const Eigen::MatrixXd covariance = covariance_of(rows, plane.mean);
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(covariance);
  BASCULE_CHECK(solver.info() == Eigen::Success);  // it converges for every finite matrix
  double variance = 0.0;
  for (Eigen::Index c = 0; c < width; ++c) variance += covariance(c, c);
  for (Eigen::Index k = 0; k < 2; ++k) {
    const Eigen::Index column = width - 1 - k;  // the values ascend
    const double* const axis = solver.eigenvectors().data() + column * width;
    plane.axes[k] = with_fixed_sign({axis, axis + width});
    if (variance > 0.0) plane.shares[k] = std::max(solver.eigenvalues()[column], 0.0) / variance;
  }
  return plane;
}

}  // namespace bascule
