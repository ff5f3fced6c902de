// SPDX-License-Identifier: Apache-2.0
// The two principal components of a table, for a map of it: the directions in which its rows vary most.
//
//   mean = (1/N) sum_n row_n;  C = (1/N) sum_n (row_n - mean) (row_n - mean)^T;  C v = lambda v, largest lambda first
//   place of row_n on component k = v_k . (row_n - mean)
// Source: Jolliffe, Principal Component Analysis, section 1.1.
//
// float64 throughout, sums in the order of rows and columns, eigenvectors by Eigen without vector instructions: the
// same bits on every CPU. A component's sign is free; here its largest element (the first, of equal ones) is positive.
// Allocates.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/span.h"

namespace bascule {

struct PrincipalPlane {
  std::vector<double> mean;     // (width)
  std::vector<double> axes[2];  // (width), of length 1
  double shares[2] = {};        // of the variance, which each of them holds; 0 where the rows do not vary

  struct Place {
    double x = 0.0, y = 0.0;
  };
  // row: as wide as the table.
  Place place_of(Span<const float> row) const;
};

// rows: `width` floats each, all finite. Requires at least one row, and a width of 2 or more.
PrincipalPlane principal_plane(const std::vector<const float*>& rows, std::int64_t width);

}  // namespace bascule
