// SPDX-License-Identifier: Apache-2.0
#include "src/update/update.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/check.h"
#include "src/base/clock.h"

namespace bascule {

void average_weights(const KernelTable& kernels, float* averages, const float* values, std::int64_t count,
                     double share) noexcept {
  if (share == 1.0) {  // in floating point the formula would not copy exactly
    std::copy_n(values, count, averages);
  } else {
    kernels.average({averages, values, count, static_cast<float>(share)});
  }
}

double sum_in_order(Span<const double> of_blocks) noexcept {
  double sum = 0.0;
  for (const double of_block : of_blocks) sum += of_block;
  return sum;
}

double gradient_norm(Span<const double> squares, const UpdateSettings& settings) noexcept {
  return settings.gradient_factor * std::sqrt(sum_in_order(squares));
}

// torch.nn.utils.clip_grad_norm_: min(1, max / (norm + 1e-6))
float gradient_scale(double norm, const UpdateSettings& settings) noexcept {
  const double clip = settings.max_grad_norm > 0.0 ? settings.max_grad_norm / (norm + 1e-6) : 1.0;
  return static_cast<float>(settings.gradient_factor * std::min(clip, 1.0));
}

Update::Update(const ParameterLayout& layout, float* parameters, std::vector<float*> gradients,
               const OptimizerStates& states, double* partials, const KernelTable& kernels, Group* group,
               Span<const std::int64_t> part_begins)
    : blocks_(cut_into_blocks(layout)),
      parameters_(parameters),
      gradients_(std::move(gradients)),
      own_gradients_(gradients_[gradients_.size() > 1 ? static_cast<std::size_t>(group->local_rank()) : 0]),
      states_(states),
      partials_(partials),
      kernels_(kernels),
      group_(group) {
  BASCULE_CHECK(gradients_.size() == 1 || (gradients_.size() == static_cast<std::size_t>(group->local_size()) &&
                                           gradients_.size() <= kMostLocalRanks));
  BASCULE_CHECK(states.kind->measures <= kMostMeasures);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (i == 0 || blocks_[i].run != blocks_[i - 1].run) first_of_run_.push_back(i);
  }
  first_of_run_.push_back(blocks_.size());
  for (const ParameterLayout::Run& run : layout.runs)
    elements_of_run_.push_back(std::max<std::int64_t>(1, run.matrices) * run.rows * run.cols);
  std::int64_t columns = 0;
  for (std::size_t i = 0; states.kind->measures_columns && i < blocks_.size(); ++i) {
    if (std::binary_search(part_begins.begin(), part_begins.end(), blocks_[i].offset)) columns = 0;
    columns_of_block_.push_back(columns);
    columns += column_room(blocks_[i]);
  }
  take_slices(static_cast<std::int64_t>(blocks_.size()));
}

Update::~Update() = default;

void Update::take_slices(std::int64_t blocks_of_bucket) {
  own_ = group_ == nullptr
             ? own_blocks(blocks_, blocks_of_bucket, 0, 1, 1)
             : own_blocks(blocks_, blocks_of_bucket, group_->local_rank(), group_->local_size(), group_->nodes());
  updated_.clear();
  for (std::size_t i = 0; i < own_.numbers.size(); ++i) {
    if (!states_.are_shared_out || own_.owners[i] == group_->node()) updated_.push_back(own_.numbers[i]);
  }
  if (!lane_options_.memory.empty())
    lane_ = std::make_unique<NodeLane>(*group_, blocks_, own_, own_gradients_, parameters_, kernels_, lane_options_);
}

void Update::connect(Span<std::byte> memory, bool is_bf16) {
  BASCULE_CHECK(group_ != nullptr && group_->nodes() > 1 && !reducer_);
  lane_options_ = {memory, is_bf16, states_.are_shared_out};
  take_slices(static_cast<std::int64_t>(blocks_.size()));
}

std::vector<std::int64_t> Update::bucket_ends(std::int64_t blocks_of_bucket) const {
  std::vector<std::int64_t> ends;
  const std::int64_t blocks = static_cast<std::int64_t>(blocks_.size());
  for (std::int64_t first = 0; first < blocks; first += blocks_of_bucket) {
    const UpdateBlock& last = blocks_[static_cast<std::size_t>(std::min(first + blocks_of_bucket, blocks) - 1)];
    ends.push_back(last.offset + last.count);
  }
  return ends;
}

void Update::overlap(std::int64_t blocks_of_bucket, const std::vector<std::int64_t>& marks) {
  take_slices(blocks_of_bucket);
  BASCULE_CHECK(group_ != nullptr && !states_.are_shared_out && marks.size() + 1 == own_.of_bucket.size());
  reducer_ = std::make_unique<BucketReducer>(*group_, marks,
                                             BucketReducer::Work{&sum_bucket, lane_ ? &move_buckets : nullptr, this});
}

std::vector<Span<std::byte>> Update::own_memory() const {
  std::vector<Span<std::byte>> memory;
  const auto add = [&](float* values, std::int64_t count) {
    std::byte* const begin = static_cast<std::byte*>(static_cast<void*>(values));
    std::byte* const end = begin + static_cast<std::size_t>(count) * sizeof(float);
    // Tensors have gaps between them that nobody works on.
    const bool continues = !memory.empty() && begin >= memory.back().end() && begin <= memory.back().end() + kPage;
    if (count > 0 && continues) {
      memory.back() = {memory.back().data(), static_cast<std::size_t>(end - memory.back().data())};
    } else if (count > 0) {
      memory.push_back({begin, static_cast<std::size_t>(end - begin)});
    }
  };
  for (const StateRange& range : states_.ranges) {
    for (const std::int32_t number : updated_) {
      const std::size_t b = static_cast<std::size_t>(number);
      add(range.of_block(b), range.shards.blocks[b].count);
    }
  }
  for (float* const range : {averages_, gradients_.size() == 1 ? own_gradients_ : nullptr}) {
    for (const std::int32_t number : own_.numbers) {
      if (range != nullptr) add(range + block(number).offset, block(number).count);
    }
  }
  return memory;
}

void Update::begin(std::int64_t number) noexcept {
  if (lane_) lane_->begin();
  if (reducer_) reducer_->begin(number);
}

void Update::rest() noexcept {
  if (reducer_) reducer_->finish();
}

void Update::sum_bucket(void* self, std::size_t bucket) noexcept {
  const Update& u = *static_cast<const Update*>(self);
  for (std::int64_t i = u.own_.of_bucket[bucket]; i < u.own_.of_bucket[bucket + 1]; ++i)
    u.sum_over_ranks(u.block(u.own_.numbers[static_cast<std::size_t>(i)]));
}

bool Update::move_buckets(void* self, std::size_t summed) noexcept {
  Update& u = *static_cast<Update*>(self);
  return u.lane_->advance(static_cast<std::size_t>(u.own_.of_bucket[summed]));
}

// In a fixed tree over the ranks, whoever does it. The sum is in the caches when its squares are added up.
void Update::sum_over_ranks(const UpdateBlock& block) const noexcept {
  if (gradients_.size() == 1) return;
  const float* terms[kMostLocalRanks];
  for (std::size_t rank = 0; rank < gradients_.size(); ++rank) terms[rank] = gradients_[rank] + block.offset;
  kernels_.sum_terms({own_gradients_ + block.offset, terms, static_cast<std::int64_t>(gradients_.size()), block.count});
}

// Sums what is not yet summed, on this node and then with the others, and the squares of the sums.
bool Update::measure_gradients(Threads& threads) noexcept {
  std::int64_t summed = reducer_ ? own_.of_bucket[reducer_->finish()] : 0;  // of own_
  if (lane_) {
    run_tasks(threads, own_.count() - summed,
              [&](std::int64_t task) { sum_over_ranks(block(own_.numbers[static_cast<std::size_t>(summed + task)])); });
    summed = own_.count();
    if (!lane_->sum()) return false;
  }
  run_tasks(threads, static_cast<std::int64_t>(updated_.size()), [&](std::int64_t task) {
    const std::int32_t number = updated_[static_cast<std::size_t>(task)];
    const UpdateBlock& one = block(number);
    if (task >= summed) sum_over_ranks(one);
    kernels_.sum_of_squares({partials_ + number, own_gradients_ + one.offset, one.count});
  });
  return merge(0, 1);
}

bool Update::merge(std::size_t first, std::size_t count) noexcept {
  for (std::size_t which = first; lane_ && which < first + count; ++which) {
    if (!lane_->merge(partials(which).data())) return false;
  }
  return wait_for_ranks();
}

void Update::move_block(OptimizerPass pass, std::size_t number, const UpdateSettings& settings, float gradient_scale,
                        float* gradient) const noexcept {
  const UpdateBlock& one = blocks_[number];
  OptimizerBlock b{settings,
                   kernels_,
                   one,
                   settings.learning_rate_of(one),
                   settings.weight_decay_of(one),
                   parameters_ + one.offset,
                   gradient,
                   gradient_scale,
                   elements_of_run_[static_cast<std::size_t>(one.run)],
                   {},
                   nullptr,
                   {},
                   {}};
  if (!columns_of_block_.empty()) b.columns = columns_of(number);
  for (std::size_t i = 0; i < states_.ranges.size(); ++i) b.states[i] = states_.ranges[i].of_block(number);
  const std::size_t first = first_of_run_[static_cast<std::size_t>(one.run)];
  const std::size_t end = first_of_run_[static_cast<std::size_t>(one.run) + 1];
  for (std::size_t m = 0; m < states_.kind->measures; ++m) {
    b.measures[m] = &partials(1 + m)[number];
    b.of_tensor[m] = partials(1 + m).subspan(first, end - first);
  }
  pass(b);
}

// The optimizer's passes. Between them every rank needs the measures of all blocks of a tensor of which it has one.
bool Update::move_weights(Threads& threads, const UpdateSettings& settings, float gradient_scale) noexcept {
  const Span<const OptimizerPass> passes = states_.kind->passes;
  for (std::size_t pass = 0; pass < passes.size(); ++pass) {
    if (pass > 0 && !merge(1, states_.kind->measures)) return false;
    run_tasks(threads, static_cast<std::int64_t>(updated_.size()), [&](std::int64_t task) {
      const std::size_t number = static_cast<std::size_t>(updated_[static_cast<std::size_t>(task)]);
      const std::int64_t offset = blocks_[number].offset;
      if (pass == 0 && settings.observer != nullptr)
        settings.observer->see(number, parameters_ + offset, own_gradients_ + offset);
      move_block(passes[pass], number, settings, gradient_scale, own_gradients_ + offset);
    });
  }
  return !lane_ || lane_->spread_weights();
}

// Blocks of this rank, also those that another node has updated and sent.
void Update::average(Threads& threads, double share) const noexcept {
  run_tasks(threads, own_.count(), [&](std::int64_t task) {
    const UpdateBlock& one = block(own_.numbers[static_cast<std::size_t>(task)]);
    average_weights(kernels_, averages_ + one.offset, parameters_ + one.offset, one.count, share);
  });
}

bool Update::parameters_are_finite(Threads& threads) noexcept {
  run_tasks(threads, static_cast<std::int64_t>(blocks_.size()), [&](std::int64_t number) {
    const UpdateBlock& one = blocks_[static_cast<std::size_t>(number)];
    kernels_.sum_of_squares({partials_ + number, parameters_ + one.offset, one.count});
  });
  return std::isfinite(sum_in_order(partials(0)));
}

bool Update::run_part(Threads& threads, const UpdateSettings& settings, std::size_t first, std::size_t end,
                      float* gradient, std::int64_t step) noexcept {
  const auto for_blocks = [&](const auto& work) {
    run_tasks(
        threads, static_cast<std::int64_t>(end - first),
        [&](std::int64_t task) {
          const std::size_t number = first + static_cast<std::size_t>(task);
          work(number, gradient + (blocks_[number].offset - blocks_[first].offset));
        },
        step);
  };
  for_blocks([&](std::size_t number, float* own) {
    kernels_.sum_of_squares({partials_ + number, own, blocks_[number].count});
    if (settings.observer != nullptr) settings.observer->see(number, parameters_ + blocks_[number].offset, own);
  });
  if (!std::isfinite(sum_in_order(partials(0).subspan(first, end - first)))) return false;
  const float scale = static_cast<float>(settings.gradient_factor);
  for (const OptimizerPass pass : states_.kind->passes)
    for_blocks([&](std::size_t number, float* own) { move_block(pass, number, settings, scale, own); });
  if (averages_ == nullptr || settings.average_share == 0.0) return true;
  for_blocks([&](std::size_t number, float*) {
    const UpdateBlock& one = blocks_[number];
    average_weights(kernels_, averages_ + one.offset, parameters_ + one.offset, one.count, settings.average_share);
  });
  return true;
}

double Update::norm_of_parts(const UpdateSettings& settings) const noexcept {
  return gradient_norm(partials(0), settings);
}

double Update::run(Threads& threads, const UpdateSettings& settings) noexcept {
  const double began = monotonic_seconds();
  if (!measure_gradients(threads)) return std::nan("");
  const double norm = gradient_norm(partials(0), settings);
  reduction_seconds_ = monotonic_seconds() - began;
  if (!std::isfinite(norm)) return norm;
  if (!move_weights(threads, settings, gradient_scale(norm, settings))) return std::nan("");
  if (averages_ != nullptr && settings.average_share > 0.0) average(threads, settings.average_share);
  return wait_for_ranks() ? norm : std::nan("");
}

std::vector<std::int64_t> FusedUpdate::part_begins(const ParameterLayout& layout) {
  std::vector<std::int64_t> begins;
  for (const ParameterLayout::Place& place : layout.places) {
    if (place.trained) begins.push_back(place.offset);
  }
  std::sort(begins.begin(), begins.end());
  return begins;
}

FusedUpdate::FusedUpdate(const GradientRingPlan& plan, const ParameterLayout& layout, float* ring, Update& update)
    : update_(update) {
  const std::vector<UpdateBlock>& blocks = update.blocks();
  std::size_t next = 0;
  const auto block_at = [&](std::int64_t offset) {
    while (next < blocks.size() && blocks[next].offset < offset) ++next;
    BASCULE_CHECK(next == blocks.size() || blocks[next].offset == offset);
    return next;
  };
  const std::vector<std::int64_t> begins = part_begins(layout);
  for (std::size_t i = 0; i < begins.size(); ++i) {
    const std::int64_t end = i + 1 < begins.size() ? begins[i + 1] : layout.trained_elements;
    const std::size_t first = block_at(begins[i]);
    Part part{first, block_at(end), 0, end - begins[i], ring};
    // Parameters with a gradient come first, in this order too.
    if (i < plan.pieces.size()) {
      BASCULE_CHECK(plan.pieces[i].offset == begins[i]);
      part.elements = plan.pieces[i].elements;
      part.gradient = ring + plan.pieces[i].ring_offset;
    }
    parts_.push_back(part);
  }
  for (const GradientRingPlan::Bucket& bucket : plan.buckets)
    end_of_bucket_.push_back(static_cast<std::size_t>(bucket.pieces_end));
}

void FusedUpdate::begin(const UpdateSettings& settings) noexcept {
  settings_ = settings;
  is_finite_ = true;
}

void FusedUpdate::update_part(const Part& part, std::int64_t step, Threads& threads) noexcept {
  std::fill(part.gradient + part.elements, part.gradient + part.room, 0.0f);
  is_finite_ = update_.run_part(threads, settings_, part.first, part.end, part.gradient, step) && is_finite_;
}

bool FusedUpdate::act(std::size_t bucket, std::int64_t step, Threads& threads) noexcept {
  const std::size_t first = bucket == 0 ? 0 : end_of_bucket_[bucket - 1];
  for (std::size_t i = first; i < end_of_bucket_[bucket] && is_finite_; ++i) update_part(parts_[i], step, threads);
  return true;
}

double FusedUpdate::finish(Threads& threads) noexcept {
  const std::size_t first = end_of_bucket_.empty() ? 0 : end_of_bucket_.back();
  for (std::size_t i = first; i < parts_.size() && is_finite_; ++i) update_part(parts_[i], 0, threads);
  return update_.norm_of_parts(settings_);
}

}  // namespace bascule
