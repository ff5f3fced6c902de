// SPDX-License-Identifier: Apache-2.0
#include "src/train/update.h"

#include <cmath>

namespace bascule {

std::vector<Update::Block> Update::cut(const ParameterLayout& layout) {
  std::vector<Block> blocks;
  for (const ParameterLayout::Run& run : layout.runs) {
    for (std::int64_t first = 0; first < run.elements; first += kBlock) {
      const std::int64_t left = run.elements - first;
      blocks.push_back({run.offset + first, left < kBlock ? left : kBlock, run.decayed});
    }
  }
  return blocks;
}

std::size_t Update::block_count(const ParameterLayout& layout) { return cut(layout).size(); }

Update::Update(const ParameterLayout& layout, float* parameters, const float* gradients, float* exp_avg,
               float* exp_avg_sq, double* partials, const KernelTable& kernels)
    : blocks_(cut(layout)),
      parameters_(parameters),
      gradients_(gradients),
      exp_avg_(exp_avg),
      exp_avg_sq_(exp_avg_sq),
      partials_(partials),
      kernels_(kernels) {
  norm_step_ = {norm_block, block_tasks, this, 0};
  adamw_step_ = {adamw_block, block_tasks, this, 0};
  parameter_step_ = {parameter_block, block_tasks, this, 0};
}

std::int64_t Update::block_tasks(const void* arguments, const Replay&) {
  return static_cast<std::int64_t>(static_cast<const Update*>(arguments)->blocks_.size());
}

void Update::norm_block(const void* arguments, const Replay&, std::int64_t task, int) {
  const Update& u = *static_cast<const Update*>(arguments);
  const Block& block = u.blocks_[static_cast<std::size_t>(task)];
  u.kernels_.sum_of_squares({u.partials_ + task, u.gradients_ + block.offset, block.count});
}

void Update::parameter_block(const void* arguments, const Replay&, std::int64_t task, int) {
  const Update& u = *static_cast<const Update*>(arguments);
  const Block& block = u.blocks_[static_cast<std::size_t>(task)];
  u.kernels_.sum_of_squares({u.partials_ + task, u.parameters_ + block.offset, block.count});
}

void Update::adamw_block(const void* arguments, const Replay&, std::int64_t task, int) {
  const Update& u = *static_cast<const Update*>(arguments);
  const Block& block = u.blocks_[static_cast<std::size_t>(task)];
  const UpdateSettings& s = u.settings_;
  const double correction1 = 1.0 - std::pow(s.beta1, static_cast<double>(s.step));
  const double correction2 = 1.0 - std::pow(s.beta2, static_cast<double>(s.step));
  AdamW a{};
  a.parameter = u.parameters_ + block.offset;
  a.exp_avg = u.exp_avg_ + block.offset;
  a.exp_avg_sq = u.exp_avg_sq_ + block.offset;
  a.gradient = u.gradients_ + block.offset;
  a.count = block.count;
  a.gradient_scale = u.gradient_scale_;
  a.decay = static_cast<float>(1.0 - (block.decayed ? s.learning_rate * s.weight_decay : 0.0));
  a.one_minus_beta1 = static_cast<float>(1.0 - s.beta1);
  a.beta2 = static_cast<float>(s.beta2);
  a.one_minus_beta2 = static_cast<float>(1.0 - s.beta2);
  a.step_size = static_cast<float>(s.learning_rate / correction1);
  a.inverse_sqrt_correction2 = static_cast<float>(1.0 / std::sqrt(correction2));
  a.epsilon = static_cast<float>(s.epsilon);
  u.kernels_.adamw(a);
}

double Update::sum_of_blocks(Threads& threads, const Step& step) noexcept {
  threads.replay(Span<const Step>(&step, 1), Replay{}, {});
  double sum = 0.0;
  for (std::size_t i = 0; i < blocks_.size(); ++i) sum += partials_[i];
  return sum;
}

bool Update::parameters_are_finite(Threads& threads) noexcept {
  return std::isfinite(sum_of_blocks(threads, parameter_step_));
}

double Update::run(Threads& threads, const UpdateSettings& settings) noexcept {
  settings_ = settings;
  const double norm = std::sqrt(sum_of_blocks(threads, norm_step_));
  if (!std::isfinite(norm)) return norm;
  // torch.nn.utils.clip_grad_norm_: min(1, max / (norm + 1e-6))
  const double clip = settings.max_grad_norm > 0.0 ? settings.max_grad_norm / (norm + 1e-6) : 1.0;
  gradient_scale_ = static_cast<float>(clip < 1.0 ? clip : 1.0);
  threads.replay(Span<const Step>(&adamw_step_, 1), Replay{}, {});
  return norm;
}

}  // namespace bascule
