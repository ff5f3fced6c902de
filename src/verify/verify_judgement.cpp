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

double one_minus_cosine(const std::vector<float>& ours, const std::vector<float>& truth) {
  double product = 0.0, our_squares = 0.0, true_squares = 0.0;
  if (ours.size() != truth.size()) return std::nan("");
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double a = static_cast<double>(ours[i]), b = static_cast<double>(truth[i]);
    product += a * b;
    our_squares += a * a;
    true_squares += b * b;
  }
  if (true_squares == 0.0) return our_squares == 0.0 ? 0.0 : 1.0;
  return 1.0 - product / std::sqrt(our_squares * true_squares);
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
  tensor.error = error;
  tensor.reference = reference;
  tensor.limit = std::max(3.0 * reference, floor);
  tensors.push_back(tensor);
}

void Judgement::add_angle(const std::string& name, double error, double reference, double floor) {
  VerifiedTensor tensor;
  tensor.name = name;
  tensor.measure = Measure::kOneMinusCosine;
  tensor.error = error;
  tensor.reference = reference;
  tensor.limit = std::max(2.0 * reference, floor);
  tensors.push_back(tensor);
}

void Judgement::add_norm(const std::string& name, double norm, double limit) {
  VerifiedTensor tensor;
  tensor.name = name;
  tensor.measure = Measure::kNorm;
  tensor.error = norm;
  tensor.limit = limit;
  tensors.push_back(tensor);
}

}  // namespace bascule
