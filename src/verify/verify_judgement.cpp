// SPDX-License-Identifier: Apache-2.0
#include "src/verify/verify_judgement.h"

#include <algorithm>
#include <cmath>

namespace bascule {

double relative_l2(const std::vector<float>& ours, const std::vector<float>& truth) {
  double difference = 0.0, norm = 0.0;
  if (ours.size() != truth.size()) return std::nan("");
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double d = static_cast<double>(ours[i]) - static_cast<double>(truth[i]);
    difference += d * d;
    norm += static_cast<double>(truth[i]) * static_cast<double>(truth[i]);
  }
  return norm > 0.0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

std::vector<float> pick_rows(const std::vector<float>& tensor, const std::vector<std::int64_t>& rows,
                             std::int64_t cols) {
  std::vector<float> picked;
  picked.reserve(rows.size() * static_cast<std::size_t>(cols));
  for (const std::int64_t row : rows)
    picked.insert(picked.end(), tensor.begin() + row * cols, tensor.begin() + (row + 1) * cols);
  return picked;
}

void Judgement::add(const std::string& name, double error, double reference, double floor) {
  VerifiedTensor tensor;
  tensor.name = name;
  tensor.relative_l2 = error;
  tensor.reference_relative_l2 = reference;
  tensor.limit = std::max(3.0 * reference, floor);
  tensors.push_back(tensor);
}

void Judgement::add_norm(const std::string& name, double norm, double limit) {
  VerifiedTensor tensor;
  tensor.name = name;
  tensor.relative_l2 = norm;
  tensor.limit = limit;
  tensor.is_norm = true;
  tensors.push_back(tensor);
}

}  // namespace bascule
