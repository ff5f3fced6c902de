// SPDX-License-Identifier: Apache-2.0
// The contrastive loss: three one-sided cross entropies over the local batch, or that of all ranks, and its gradient.
#include <cmath>

#include "src/base/align.h"
#include "src/base/check.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"
#include "src/graph/operations/accumulate.h"

namespace bascule {
namespace {

constexpr int kPairs = 3;
constexpr int kRowOperand[kPairs] = {0, 0, 1};     // text, text, image
constexpr int kColumnOperand[kPairs] = {1, 2, 2};  // image, cross, cross
constexpr std::int64_t kRowsPerTask = 8;

float scale_of(const float* logit_scale) { return static_cast<float>(std::exp(static_cast<double>(*logit_scale))); }

// Rows of the matrices of a batch: all samples, and which of them are this rank's.
struct Samples {
  std::int64_t all, first, own;
};
Samples samples_of(bool over_ranks, const Replay& replay) {
  const std::int64_t own = replay.batch.counts.samples;
  return over_ranks ? Samples{replay.peers.samples, replay.peers.first, own} : Samples{own, 0, own};
}

static_assert(Peers::kOperands == 3);

struct GatherArguments {
  float* gathered[3];
  const float* own[3];
  std::int64_t width;
  static std::int64_t tasks(const GatherArguments&, const Replay&) { return 1; }
  static void run(const GatherArguments& a, const Replay& replay, std::int64_t, int) {
    replay.peers.gather(replay.peers.context, a.gathered, a.own, replay.batch.counts.samples, a.width);
  }
};

struct ForwardArguments {
  const KernelTable* kernels;
  float *losses, *slopes,
      *weights;  // (3, bound) and (3 bound, bound), of which a batch of B uses the first 3 B and 3 B B elements
  const float* operand[3];
  const float* logit_scale;
  std::int64_t width;
  bool over_ranks;
  static std::int64_t tasks(const ForwardArguments& a, const Replay& replay) {
    return kPairs * divide_up(samples_of(a.over_ranks, replay).all, kRowsPerTask);
  }
  static void run(const ForwardArguments& a, const Replay& replay, std::int64_t task, int) {
    const std::int64_t samples = samples_of(a.over_ranks, replay).all, blocks = divide_up(samples, kRowsPerTask);
    const std::int64_t pair = task / blocks, first = task % blocks * kRowsPerTask;
    const std::int64_t count = samples - first < kRowsPerTask ? samples - first : kRowsPerTask;
    a.kernels->contrastive_forward({a.losses + pair * samples + first, a.slopes + pair * samples + first,
                                    a.weights + (pair * samples + first) * samples,
                                    a.operand[kRowOperand[pair]] + first * a.width, a.operand[kColumnOperand[pair]],
                                    count, samples, a.width, first, scale_of(a.logit_scale)});
  }
};

struct MeanArguments {
  float* loss;
  const float* losses;
  bool over_ranks;
  static std::int64_t tasks(const MeanArguments&, const Replay&) { return 1; }
  static void run(const MeanArguments& a, const Replay& replay, std::int64_t, int) {
    const std::int64_t count = kPairs * samples_of(a.over_ranks, replay).all;
    double sum = 0.0;
    for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(a.losses[i]);
    *a.loss = count > 0 ? static_cast<float>(sum / static_cast<double>(count)) : 0.0f;
  }
};

// One block of rows of one embedding's gradient: the two pairs in which it takes part, in their order. The last task is
// the scale's.
struct BackwardArguments {
  const KernelTable* kernels;
  float* d_operand[3];
  float* d_scale;
  const float *weights, *slopes;
  const float* operand[3];
  const float* logit_scale;
  std::int64_t width;
  Accumulate rule[3], scale_rule;
  bool over_ranks;
  static std::int64_t tasks(const BackwardArguments&, const Replay& replay) {
    return 3 * divide_up(replay.batch.counts.samples, kRowsPerTask) + 1;
  }
  static void run(const BackwardArguments& a, const Replay& replay, std::int64_t task, int) {
    const Samples samples = samples_of(a.over_ranks, replay);
    const std::int64_t blocks = divide_up(samples.own, kRowsPerTask);
    const double scale = static_cast<double>(scale_of(a.logit_scale));
    const double mean = static_cast<double>(replay.loss_weight) / static_cast<double>(kPairs * samples.all);
    if (task == 3 * blocks) return run_scale(a, replay, samples, scale * mean);
    const int which = static_cast<int>(task / blocks);
    if (a.d_operand[which] == nullptr) return;
    const std::int64_t first = task % blocks * kRowsPerTask;
    const std::int64_t count = samples.own - first < kRowsPerTask ? samples.own - first : kRowsPerTask;
    const std::int64_t row = samples.first + first;
    bool add = adds(a.rule[which], replay);
    for (int pair = 0; pair < kPairs; ++pair) {
      const bool as_row = kRowOperand[pair] == which;
      if (!as_row && kColumnOperand[pair] != which) continue;
      const float* weights = a.weights + pair * samples.all * samples.all + (as_row ? row * samples.all : row);
      a.kernels->weighted_row_sum({a.d_operand[which] + first * a.width, weights,
                                   a.operand[as_row ? kColumnOperand[pair] : kRowOperand[pair]], count, samples.all,
                                   a.width, as_row ? samples.all : 1, as_row ? 1 : samples.all,
                                   static_cast<float>(scale * mean), add});
      add = true;
    }
  }
  static void run_scale(const BackwardArguments& a, const Replay& replay, const Samples& samples, double factor) {
    if (a.d_scale == nullptr) return;
    double sum = 0.0;
    for (std::int64_t pair = 0; pair < kPairs; ++pair) {
      const float* const slopes = a.slopes + pair * samples.all + samples.first;
      for (std::int64_t i = 0; i < samples.own; ++i) sum += static_cast<double>(slopes[i]);
    }
    *a.d_scale = (adds(a.scale_rule, replay) ? *a.d_scale : 0.0f) + static_cast<float>(sum * factor);
  }
};

struct Operands {
  Tensor operand[3], logit_scale, losses, slopes, weights;
  Tensor gathered[3];  // of all ranks; where there is one process, the operands themselves
  bool over_ranks = false;
  std::int64_t width = 0;
};

Cost cost_of(const Operands& o, const BatchCounts& counts) {
  const double pairs = static_cast<double>(kPairs * counts.samples * counts.samples);
  return {2.0 * pairs * static_cast<double>(o.width), 4.0 * pairs};
}

class ContrastiveGradient final : public Operation {
 public:
  Operands o;
  Backward::Slot d_operand[3], d_scale;

  const char* kind() const override { return "contrastive_loss_backward"; }
  std::vector<TensorUse> uses() const override {
    std::vector<TensorUse> uses = {
        {o.logit_scale, Access::kRead}, {o.slopes, Access::kRead}, {o.weights, Access::kRead}};
    for (const Tensor tensor : o.gathered) uses.push_back({tensor, Access::kRead});
    add_slots(&uses, {d_operand[0], d_operand[1], d_operand[2], d_scale});
    return uses;
  }
  Cost cost(const BatchCounts& counts) const override {
    const Cost forward = cost_of(o, counts);
    return {2.0 * forward.flops, 2.0 * forward.bytes};
  }
  void launch(Launch& launch) const override {
    BackwardArguments a{};
    a.kernels = &launch.kernels;
    for (int i = 0; i < 3; ++i) {
      a.d_operand[i] = launch.at(d_operand[i].gradient);
      a.operand[i] = launch.at(o.gathered[i]);
      a.rule[i] = d_operand[i].accumulate;
    }
    a.d_scale = launch.at(d_scale.gradient);
    a.scale_rule = d_scale.accumulate;
    a.weights = launch.at(o.weights);
    a.slopes = launch.at(o.slopes);
    a.logit_scale = launch.at(o.logit_scale);
    a.width = o.width;
    a.over_ranks = o.over_ranks;
    launch.step(a);
  }
};

class ContrastiveLoss final : public Operation {
 public:
  Operands o;
  Tensor loss;

  const char* kind() const override { return "contrastive_loss"; }
  std::vector<TensorUse> uses() const override {
    std::vector<TensorUse> uses = {{o.logit_scale, Access::kRead}};
    for (int i = 0; i < 3; ++i) {
      uses.push_back({o.operand[i], Access::kRead});
      if (o.over_ranks) uses.push_back({o.gathered[i], Access::kWrite});
    }
    uses.insert(
        uses.end(),
        {{loss, Access::kWrite}, {o.losses, Access::kWrite}, {o.slopes, Access::kWrite}, {o.weights, Access::kWrite}});
    return uses;
  }
  Cost cost(const BatchCounts& counts) const override { return cost_of(o, counts); }
  void derive(Backward& b) const override {
    auto op = std::make_unique<ContrastiveGradient>();
    op->o = o;
    for (int i = 0; i < 3; ++i) op->d_operand[i] = b.slot(o.operand[i]);
    op->d_scale = b.slot(o.logit_scale);
    b.emit(std::move(op));
  }
  void launch(Launch& launch) const override {
    ForwardArguments a{
        &launch.kernels, launch.at(o.losses), launch.at(o.slopes), launch.at(o.weights), {}, launch.at(o.logit_scale),
        o.width,         o.over_ranks};
    GatherArguments gather{{}, {}, o.width};
    for (int i = 0; i < 3; ++i) {
      a.operand[i] = gather.gathered[i] = launch.at(o.gathered[i]);
      gather.own[i] = launch.at(o.operand[i]);
    }
    if (o.over_ranks) launch.step(gather);
    launch.step(a);
    launch.step(MeanArguments{launch.at(loss), launch.at(o.losses), o.over_ranks});
  }
};

}  // namespace

Tensor contrastive_loss(Graph& graph, Tensor text, Tensor image, Tensor cross, Tensor logit_scale,
                        std::int64_t samples_of_all) {
  auto op = std::make_unique<ContrastiveLoss>();
  Operands& o = op->o;
  o.width = graph[text].cols;
  o.logit_scale = logit_scale;
  o.over_ranks = samples_of_all > 0;
  const Tensor operands[3] = {text, image, cross};
  for (int i = 0; i < 3; ++i) {
    BASCULE_CHECK(graph[operands[i]].cols == o.width);
    o.operand[i] = operands[i];
    o.gathered[i] = o.over_ranks ? graph.activation("gathered", fixed_rows(samples_of_all), o.width) : operands[i];
  }
  const std::int64_t bound = o.over_ranks ? samples_of_all : graph.bounds().samples > 0 ? graph.bounds().samples : 1;
  const Extent rows = o.over_ranks ? fixed_rows(kPairs * bound) : rows_per_sample(kPairs);
  o.losses = graph.activation("losses", rows, 1);
  o.slopes = graph.activation("slopes", rows, 1);
  o.weights = graph.activation("weights", rows, bound);
  op->loss = graph.activation("loss", fixed_rows(1), 1);
  graph.keep(op->loss);
  const Tensor loss = op->loss;
  graph.add(std::move(op));
  return loss;
}

}  // namespace bascule
