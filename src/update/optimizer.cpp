// SPDX-License-Identifier: Apache-2.0
#include "src/update/optimizer.h"

#include <algorithm>
#include <cmath>

#include "src/base/elementary.h"
#include "src/update/update.h"

namespace bascule {
namespace {

constexpr double kDecayRate = 0.8, kClippingThreshold = 1.0;

enum States { kRows, kColumns, kVectors };
constexpr OptimizerState kStates[] = {{"exp_avg_sq_row", OptimizerState::Lies::kByRow},
                                      {"exp_avg_sq_col", OptimizerState::Lies::kByColumn},
                                      {"exp_avg_sq", OptimizerState::Lies::kOfVectors}};

// 0 in the first update, which forgets the zeros that states begin with.
double beta_of(const OptimizerBlock& b) noexcept {
  return 1.0 - 1.0 / fixed_power(static_cast<double>(b.settings.step), kDecayRate);
}

void measure_direction(const OptimizerBlock& b) noexcept {
  b.kernels.sum_of_squares({b.measures[0], b.gradient, b.block.rows * b.block.cols});
}

// Column sums of a matrix, `parts` rows of them, become its new state; the first row becomes the factors of directions,
// and the mean of the matrix's row state stands behind it.
void finish_columns(const OptimizerBlock& b, const float* rows, float* state, float* sums,
                    std::int32_t parts) noexcept {
  const UpdateBlock& block = b.block;
  const double beta = beta_of(b), matrix_rows = static_cast<double>(block.matrix_rows);
  for (std::int64_t c = 0; c < block.cols; ++c) {
    double sum = 0.0;
    for (std::int32_t part = 0; part < parts; ++part) sum += static_cast<double>(sums[part * (block.cols + 1) + c]);
    const double mean = sum / matrix_rows + static_cast<double>(kAdafactorFloor);
    state[c] = static_cast<float>(beta * static_cast<double>(state[c]) + (1.0 - beta) * mean);
    sums[c] = static_cast<float>(1.0 / std::sqrt(static_cast<double>(state[c])));
  }
  double sum = 0.0;
  for (std::int64_t r = 0; r < block.matrix_rows; ++r) sum += static_cast<double>(rows[r]);
  sums[block.cols] = static_cast<float>(sum / matrix_rows);
}

void vector_direction(const OptimizerBlock& b) noexcept {
  const double beta = beta_of(b);
  b.kernels.adafactor_vector({b.gradient, b.states[kVectors], b.block.cols, b.gradient_scale, static_cast<float>(beta),
                              static_cast<float>(1.0 - beta)});
  measure_direction(b);
}

// Rows of the block that are of one matrix.
std::int64_t rows_at_a_time(const UpdateBlock& block) noexcept { return std::min(block.rows, block.matrix_rows); }

void squares_block(const OptimizerBlock& b) noexcept {
  const UpdateBlock& block = b.block;
  if (block.matrix_rows == 0) return vector_direction(b);
  const double beta = beta_of(b);
  const std::int64_t rows = rows_at_a_time(block);
  for (std::int64_t row = 0, matrix = 0; row < block.rows; row += rows, ++matrix) {
    float* const sums = b.columns + matrix * (block.cols + 1);
    float* const row_state = b.states[kRows] + row;
    b.kernels.adafactor_squares({b.gradient + row * block.cols, row_state, sums, rows, block.cols, b.gradient_scale,
                                 static_cast<float>(beta), static_cast<float>(1.0 - beta)});
    if (block.parts == 1) finish_columns(b, row_state, b.states[kColumns] + matrix * block.cols, sums, 1);
  }
}

// Other blocks' rows of sums lie behind those of the matrix's first block.
void columns_block(const OptimizerBlock& b) noexcept {
  if (b.block.parts > 1 && b.block.part == 0)
    finish_columns(b, b.states[kRows], b.states[kColumns], b.columns, b.block.parts);
}

void direction_block(const OptimizerBlock& b) noexcept {
  const UpdateBlock& block = b.block;
  if (block.matrix_rows == 0) return;
  const std::int64_t rows = rows_at_a_time(block);
  const float* factors = b.columns - block.part * (block.cols + 1);
  for (std::int64_t row = 0; row < block.rows; row += rows, factors += block.cols + 1) {
    b.kernels.adafactor_direction({b.gradient + row * block.cols, b.states[kRows] + row, factors, rows, block.cols,
                                   b.gradient_scale, factors[block.cols]});
  }
  measure_direction(b);
}

void step_block(const OptimizerBlock& b) noexcept {
  const double rms = std::sqrt(sum_in_order(b.of_tensor[0]) / static_cast<double>(b.tensor_elements));
  const double step_size = b.learning_rate / std::max(1.0, rms / kClippingThreshold);
  b.kernels.adafactor_step({b.parameter, b.gradient, b.block.rows * b.block.cols,
                            static_cast<float>(1.0 - b.learning_rate * b.weight_decay), static_cast<float>(step_size)});
}

constexpr OptimizerPass kPasses[] = {&squares_block, &columns_block, &direction_block, &step_block};

}  // namespace

const OptimizerKind kAdafactor = {{kStates, 3}, {kPasses, 4}, 1, RunDivision::kByMatrix, true, false};

namespace {

constexpr OptimizerState kMoments[] = {{"exp_avg"}, {"exp_avg_sq"}};

// For the bias of a moment that began at 0.
double bias_correction(double beta, const UpdateSettings& settings) noexcept {
  return 1.0 - fixed_power(beta, static_cast<double>(settings.step));
}

// The members that the arguments of AdamW and LambDirection share: the block, its moments and their decay.
template <typename Arguments>
Arguments moments_of(const OptimizerBlock& b) noexcept {
  const UpdateSettings& s = b.settings;
  Arguments a{};
  a.parameter = b.parameter;
  a.exp_avg = b.states[0];
  a.exp_avg_sq = b.states[1];
  a.gradient = b.gradient;
  a.count = b.block.count;
  a.gradient_scale = b.gradient_scale;
  a.one_minus_beta1 = static_cast<float>(1.0 - s.beta1);
  a.beta2 = static_cast<float>(s.beta2);
  a.one_minus_beta2 = static_cast<float>(1.0 - s.beta2);
  a.inverse_sqrt_correction2 = static_cast<float>(1.0 / std::sqrt(bias_correction(s.beta2, s)));
  a.epsilon = static_cast<float>(s.epsilon);
  return a;
}

void adamw_block(const OptimizerBlock& b) noexcept {
  AdamW a = moments_of<AdamW>(b);
  a.decay = static_cast<float>(1.0 - b.learning_rate * b.weight_decay);
  a.step_size = static_cast<float>(b.learning_rate / bias_correction(b.settings.beta1, b.settings));
  b.kernels.adamw(a);
}

// LAMB's measures: squares of the parameters and of the direction.
enum Squares { kOfParameters, kOfDirection };

// The gradient becomes the direction; both norms are measured while the block is in the caches.
void lamb_direction_block(const OptimizerBlock& b) noexcept {
  LambDirection a = moments_of<LambDirection>(b);
  a.weight_decay = static_cast<float>(b.weight_decay);
  a.inverse_correction1 = static_cast<float>(1.0 / bias_correction(b.settings.beta1, b.settings));
  b.kernels.lamb_direction(a);
  b.kernels.sum_of_squares({b.measures[kOfParameters], a.parameter, a.count});
  b.kernels.sum_of_squares({b.measures[kOfDirection], a.gradient, a.count});
}

// The trust ratio of the block's tensor; 1 if nothing decays it or either norm is 0.
double trust_ratio(const OptimizerBlock& b) noexcept {
  if (b.weight_decay == 0.0) return 1.0;
  const double parameters = sum_in_order(b.of_tensor[kOfParameters]);
  const double direction = sum_in_order(b.of_tensor[kOfDirection]);
  return parameters > 0.0 && direction > 0.0 ? std::sqrt(parameters) / std::sqrt(direction) : 1.0;
}

void lamb_step_block(const OptimizerBlock& b) noexcept {
  b.kernels.lamb_step({b.parameter, b.gradient, b.block.count, static_cast<float>(b.learning_rate * trust_ratio(b))});
}

constexpr OptimizerPass kAdamWPasses[] = {&adamw_block};
constexpr OptimizerPass kLambPasses[] = {&lamb_direction_block, &lamb_step_block};

const OptimizerKind kAdamW = {{kMoments, 2}, {kAdamWPasses, 1}};
const OptimizerKind kLamb = {{kMoments, 2}, {kLambPasses, 2}, 2, RunDivision::kByTensor};

}  // namespace

const OptimizerKind& optimizer_kind(Optimizer optimizer) {
  if (optimizer == Optimizer::kAdafactor) return kAdafactor;
  return optimizer == Optimizer::kLamb ? kLamb : kAdamW;
}

}  // namespace bascule
