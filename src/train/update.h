// SPDX-License-Identifier: Apache-2.0
// The update: gradient norm, clipping and AdamW as one tape over the trained range. Blocks have a fixed size and begin
// at fixed offsets; the norm's blocks are summed in their order: the same bits for any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/table.h"
#include "src/base/span.h"
#include "src/graph/parameters.h"
#include "src/runtime/threads.h"

namespace bascule {

struct UpdateSettings {
  double learning_rate = 0.0;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.0;
  double max_grad_norm = 0.0;  // 0: no clipping
  std::int64_t step = 1;       // of bias correction, from 1
};

class Update {
 public:
  static constexpr std::int64_t kBlock = 1 << 16;  // elements

  // parameters, gradients, exp_avg, exp_avg_sq: ranges of layout.trained_elements floats. partials: block_count(layout)
  // doubles.
  Update(const ParameterLayout& layout, float* parameters, const float* gradients, float* exp_avg, float* exp_avg_sq,
         double* partials, const KernelTable& kernels);
  Update(const Update&) = delete;
  Update& operator=(const Update&) = delete;

  // Returns the gradients' L2 norm before clipping. If it is not finite nothing is changed. After the seal.
  double run(Threads& threads, const UpdateSettings& settings) noexcept;

  // Whether all trained parameters are finite. After the seal.
  bool parameters_are_finite(Threads& threads) noexcept;

  static std::size_t block_count(const ParameterLayout& layout);

 private:
  struct Block {
    std::int64_t offset = 0, count = 0;
    bool decayed = false;
  };
  // Steps of the tape; `arguments` is the Update itself.
  static std::int64_t block_tasks(const void* arguments, const Replay& replay);
  static void norm_block(const void* arguments, const Replay& replay, std::int64_t task, int thread);
  static void parameter_block(const void* arguments, const Replay& replay, std::int64_t task, int thread);
  static void adamw_block(const void* arguments, const Replay& replay, std::int64_t task, int thread);
  static std::vector<Block> cut(const ParameterLayout& layout);

  std::vector<Block> blocks_;
  double sum_of_blocks(Threads& threads, const Step& step) noexcept;

  Step norm_step_, adamw_step_, parameter_step_;
  float* parameters_;
  const float* gradients_;
  float* exp_avg_;
  float* exp_avg_sq_;
  double* partials_;
  const KernelTable& kernels_;
  UpdateSettings settings_;
  float gradient_scale_ = 1.0f;
};

}  // namespace bascule
