// SPDX-License-Identifier: Apache-2.0
#define EIGEN_DONT_VECTORIZE  // as where the components are computed: one program has one Eigen

#include "src/base/principal_components.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cmath>
#include <cstddef>
#include <vector>

#include "src/base/digest.h"

namespace bascule {
namespace {

constexpr std::int64_t kWidth = 6;

// Row n, column c: (37 n + 101 c + 13 n c^2) mod 97, times (c + 1) / 97.
struct Table {
  Table(std::int64_t rows, std::int64_t of_width) : width(of_width) {
    for (std::int64_t n = 0; n < rows; ++n) {
      for (std::int64_t c = 0; c < width; ++c) {
        const auto level = static_cast<double>((37 * n + 101 * c + 13 * n * c * c) % 97);
        values.push_back(static_cast<float>(level * static_cast<double>(c + 1) / 97.0));
      }
    }
  }
  const float* row(std::int64_t n) const { return values.data() + n * width; }
  std::vector<const float*> rows() const {
    std::vector<const float*> all;
    for (std::int64_t n = 0; n * width < static_cast<std::int64_t>(values.size()); ++n) all.push_back(row(n));
    return all;
  }
  PrincipalPlane::Place place(const PrincipalPlane& plane, std::int64_t n) const {
    return plane.place_of({row(n), static_cast<std::size_t>(width)});
  }

  std::int64_t width;
  std::vector<float> values;
};

// By numpy.linalg.svd of the centred table of 40 rows, in float64; signs as the header says.
TEST(PrincipalComponents, AreThoseOfNumpy) {
  const double axes[2][kWidth] = {{0.001632480622912143, -0.044371543996349717, -0.031035948430223413,
                                   0.01792783737896143, 0.42346020185359601, 0.90411576752562861},
                                  {-0.042302771018343656, -0.017777510266324605, 0.097743399838442727,
                                   0.32399837257872044, 0.84965235207910839, -0.40181662316746131}};
  const double shares[2] = {0.43152695217667802, 0.24264296271874752};
  const struct {
    std::int64_t row;
    double x, y;
  } places[] = {{0, -2.2633973576183211, -1.2167261404338519},
                {17, -0.11292470925708169, -2.4339035706042078},
                {39, 1.6835923265615931, -0.3058663967999839}};
  const Table table(40, kWidth);
  const PrincipalPlane plane = principal_plane(table.rows(), kWidth);
  for (std::size_t k = 0; k < 2; ++k) {
    for (std::size_t c = 0; c < kWidth; ++c) EXPECT_NEAR(plane.axes[k][c], axes[k][c], 1e-13) << k << " " << c;
    EXPECT_NEAR(plane.shares[k], shares[k], 1e-14);
  }
  for (const auto& one : places) {
    EXPECT_NEAR(table.place(plane, one.row).x, one.x, 1e-13) << one.row;
    EXPECT_NEAR(table.place(plane, one.row).y, one.y, 1e-13) << one.row;
  }
}

TEST(PrincipalComponents, RowsThatDoNotVaryLieInOnePlace) {
  const std::vector<float> row = {0.5f, -2.0f, 1.0f};
  const PrincipalPlane plane = principal_plane({row.data(), row.data()}, 3);
  EXPECT_EQ(plane.shares[0], 0.0);
  EXPECT_EQ(plane.shares[1], 0.0);
  EXPECT_EQ(plane.place_of(row).x, 0.0);
  EXPECT_EQ(plane.place_of(row).y, 0.0);
}

TEST(PrincipalComponents, RowsOnALineLeaveNothingToTheSecond) {
  const std::vector<float> a = {0.0f, 0.0f}, b = {3.0f, -4.0f};
  const PrincipalPlane plane = principal_plane({a.data(), b.data()}, 2);
  EXPECT_NEAR(plane.shares[0], 1.0, 1e-15);
  EXPECT_NEAR(plane.shares[1], 0.0, 1e-15);
  EXPECT_NEAR(plane.axes[0][1], 0.8, 1e-15);  // of the larger element, not of the first
  EXPECT_NEAR(plane.place_of(a).x, 2.5, 1e-15);
}

std::uint64_t digest_of_places(const Table& table) {
  const PrincipalPlane plane = principal_plane(table.rows(), table.width);
  std::vector<double> all;
  for (std::int64_t n = 0; n < 40; ++n) {
    all.push_back(table.place(plane, n).x);
    all.push_back(table.place(plane, n).y);
  }
  return digest_of(all.data(), all.size() * sizeof(double));
}

// Eigen sizes the blocks of its products by the caches; the result must not depend on them. The bits were recorded on a
// CPU with AVX-512.
TEST(PrincipalComponents, HaveTheSameBitsOnEveryCpu) {
  const Table table(150, 97);
  Eigen::setCpuCacheSizes(1 << 10, 2 << 10, 4 << 10);
  const std::uint64_t small_caches = digest_of_places(table);
  Eigen::setCpuCacheSizes(1 << 20, 1 << 24, 1 << 28);
  EXPECT_EQ(digest_of_places(table), small_caches);
  EXPECT_EQ(small_caches, 5879130741346201181u);
}

}  // namespace
}  // namespace bascule
