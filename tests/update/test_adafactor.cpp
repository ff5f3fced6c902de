// SPDX-License-Identifier: Apache-2.0
#include "src/update/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/update/update.h"
#include "tests/support/seeded.h"
#include "tests/update/summed_update.h"

namespace bascule::test::test_adafactor {
namespace {

struct Tensor {
  std::int64_t offset, matrices, rows, cols;  // as ParameterLayout::Run
  bool decayed;
};

std::vector<Tensor> tensors_of(const ParameterLayout& layout) {
  std::vector<Tensor> tensors;
  for (const ParameterLayout::Run& run : layout.runs)
    tensors.push_back({run.offset, std::max<std::int64_t>(1, run.matrices), run.rows, run.cols, run.decayed});
  return tensors;
}

// Transformers' Adafactor of one tensor, in float64 and plain loops.
class PlainAdafactor {
 public:
  PlainAdafactor(const Tensor& tensor, bool is_vector, const std::vector<float>& parameters)
      : t_(tensor),
        is_vector_(is_vector),
        row_(static_cast<std::size_t>(t_.matrices * t_.rows)),
        col_(static_cast<std::size_t>(t_.matrices * t_.cols)),
        v_(size()) {
    const auto first = parameters.begin() + t_.offset;
    parameter = std::vector<double>(first, first + static_cast<std::ptrdiff_t>(size()));
  }

  void step(const std::vector<float>& gradients, int number, double learning_rate, double weight_decay, double scale) {
    const double beta = 1.0 - std::pow(number, -0.8);
    std::vector<double> g(size());
    for (std::size_t i = 0; i < size(); ++i)
      g[i] = scale * static_cast<double>(gradients[static_cast<std::size_t>(t_.offset) + i]);
    std::vector<double> u = is_vector_ ? of_vector(g, beta) : of_matrices(g, beta);
    double squares = 0.0;
    for (const double x : u) squares += x * x;
    const double clip = std::max(1.0, std::sqrt(squares / static_cast<double>(size())));
    for (std::size_t i = 0; i < size(); ++i) {
      parameter[i] -= learning_rate * (t_.decayed ? weight_decay : 0.0) * parameter[i];
      parameter[i] -= learning_rate * u[i] / clip;
    }
  }

  std::vector<double> parameter;

 private:
  std::size_t size() const { return static_cast<std::size_t>(t_.matrices * t_.rows * t_.cols); }

  std::vector<double> of_vector(const std::vector<double>& g, double beta) {
    std::vector<double> u(size());
    for (std::size_t i = 0; i < size(); ++i) {
      v_[i] = beta * v_[i] + (1.0 - beta) * (g[i] * g[i] + 1e-30);
      u[i] = g[i] / std::sqrt(v_[i]);
    }
    return u;
  }
  std::vector<double> of_matrices(const std::vector<double>& g, double beta) {
    std::vector<double> u(size());
    const std::size_t rows = static_cast<std::size_t>(t_.rows), cols = static_cast<std::size_t>(t_.cols);
    for (std::size_t m = 0; m < static_cast<std::size_t>(t_.matrices); ++m) {
      std::vector<double> row_mean(rows), col_mean(cols);
      const double* const gradient = g.data() + m * rows * cols;
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < cols; ++c) {
          const double square = gradient[r * cols + c] * gradient[r * cols + c] + 1e-30;
          row_mean[r] += square / static_cast<double>(cols);
          col_mean[c] += square / static_cast<double>(rows);
        }
      }
      double* const row = row_.data() + m * rows;
      double* const col = col_.data() + m * cols;
      double mean = 0.0;
      for (std::size_t r = 0; r < rows; ++r) {
        row[r] = beta * row[r] + (1.0 - beta) * row_mean[r];
        mean += row[r] / static_cast<double>(rows);
      }
      for (std::size_t c = 0; c < cols; ++c) col[c] = beta * col[c] + (1.0 - beta) * col_mean[c];
      for (std::size_t i = 0; i < rows * cols; ++i)
        u[m * rows * cols + i] = gradient[i] / std::sqrt(row[i / cols] / mean) / std::sqrt(col[i % cols]);
    }
    return u;
  }

  const Tensor t_;
  const bool is_vector_;
  std::vector<double> row_, col_, v_;
};

struct Trained {
  ParameterLayout layout = summed_layout(RunDivision::kByMatrix);
  std::vector<float> parameters = normal_of_all(1), gradients = std::vector<float>(kAll);
  std::vector<float> states[3] = {std::vector<float>(kAll), std::vector<float>(kAll), std::vector<float>(kAll)};
  std::vector<double> partials = std::vector<double>(Update::partials_count(layout, kAdafactor), -1.0);
  OptimizerStates optimizer_states{kAdafactor, layout, {}, {states[0].data(), states[1].data(), states[2].data()}};

  // Three updates; clipped by the norm.
  void train(int threads, Isa isa) {
    Threads pool(threads, false);
    Update update(layout, parameters.data(), {gradients.data()}, optimizer_states, partials.data(), kernels_for(isa));
    for (int step = 1; step <= 3; ++step) {
      const std::vector<float> own = gradient_of(step);
      std::copy(own.begin(), own.end(), gradients.begin());
      UpdateSettings settings = summed_settings();
      settings.step = step;
      update.run(pool, settings);
    }
  }
};

TEST(Adafactor, MovesEveryTensorAsTheFormulaSays) {
  Trained t;
  std::vector<PlainAdafactor> plain;
  const std::vector<Tensor> tensors = tensors_of(t.layout);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    plain.emplace_back(tensors[i], t.layout.runs[i].matrices == 0, t.parameters);
  t.train(2, best_isa());
  for (int step = 1; step <= 3; ++step) {
    const std::vector<float> gradients = gradient_of(step);
    double squares = 0.0;
    for (const float g : gradients) squares += static_cast<double>(g) * static_cast<double>(g);
    for (PlainAdafactor& one : plain) one.step(gradients, step, 1e-2, 0.1, 1.0 / (std::sqrt(squares) + 1e-6));
  }
  for (std::size_t i = 0; i < plain.size(); ++i) {
    for (std::size_t k = 0; k < plain[i].parameter.size(); ++k) {
      const double value = static_cast<double>(t.parameters[static_cast<std::size_t>(tensors[i].offset) + k]);
      ASSERT_NEAR(value, plain[i].parameter[k], 2e-6) << "tensor " << i << ", element " << k;
    }
  }
}

TEST(Adafactor, HasTheSameBitsWithAnyThreadsAndInstructionSet) {
  Trained one;
  one.train(1, Isa::kScalar);
  for (const int threads : {1, 2, 3}) {
    Trained other;
    other.train(threads, best_isa());
    EXPECT_EQ(other.parameters, one.parameters) << threads;
    for (std::size_t state = 0; state < 3; ++state) EXPECT_EQ(other.states[state], one.states[state]) << state;
  }
}

}  // namespace
}  // namespace bascule::test::test_adafactor
