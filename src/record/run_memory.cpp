// SPDX-License-Identifier: Apache-2.0
#include "src/record/run_memory.h"

#include <utility>
#include <vector>

#include "src/base/align.h"
#include "src/machine/process_limits.h"
#include "src/ranks/gathered_rows.h"
#include "src/ranks/replaced_samples.h"
#include "src/record/check_fits.h"
#include "src/record/recomputation.h"
#include "src/session/tensor_hashes.h"

namespace bascule {
namespace {

TrainingOptions training_options(const Settings& settings, int nodes) {
  const DistributedSettings& distributed = settings.distributed;
  const bool is_sharded = distributed.distribution_strategy == Strategy::kSharded;
  TrainingOptions options;
  options.optimizer = &optimizer_kind(settings.training.optimizer);
  options.averages = settings.training.ema_decay > 0.0;
  options.activations_in_gradients = settings.training.gradient_accumulation_steps == 1;
  if (is_sharded && distributed.sharded_stage > 1)
    options.bucket_bytes = static_cast<std::size_t>(distributed.bucket_mib) << 20;
  if (is_sharded) options.state_nodes = nodes;
  options.fuses_update = settings.training.fused_update;
  return options;
}

void plan_memory(RecordedRun* run) {
  const int local_ranks = run->place.local_size;
  run->session.set_products(run->settings.machine.products);
  if (run->graphs.trains()) run->session.train(training_options(run->settings, run->place.nodes));
  std::vector<PlannedRange> ranges = run->session.plan(run->threads, local_ranks);
  ranges.push_back({kLoaderMemory, run->data.plan.total_bytes()});
  if (run->graphs.judge) ranges.push_back({kEvaluationMemory, run->graphs.judge->bytes(), local_ranks > 1});
  if (run->graphs.judge && run->graphs.judge->own_bytes() > 0)
    ranges.push_back({kEvaluationScratch, run->graphs.judge->own_bytes()});
  if (run->graphs.texts) ranges.push_back({kGenerationMemory, run->graphs.texts->bytes()});
  if (!run->place.is_alone()) {
    ranges.push_back(
        {kReplacedMemory, ReplacedSamples::bytes(run->place.world_size, run->data.loader.max_replacements), true});
  }
  if (run->pace.length.gathered_samples > 0)
    ranges.push_back(
        {kGatheredMemory,
         GatheredRows::bytes(run->pace.length.gathered_samples, run->graphs[Use::kTrain].recording.gathered_cols),
         true});
  if (run->graphs.trains() && run->place.nodes > 1) {
    const bool is_bf16 = run->settings.distributed.wire_type == WireType::kBf16;
    ranges.push_back({kLaneMemory, NodeLane::memory_bytes(run->place.nodes, is_bf16)});
  }
  ranges.push_back(
      {kRecordMemory, run->pace.step_records * sizeof(StepRecord) +
                          evaluation_logs(*run) * run->pace.evaluation_records * sizeof(EvaluationRecord)});
  if (run->graphs.trains() && run->settings.report.hash_steps > 0) {
    ranges.push_back(
        {kTensorHashes, TensorHashes::bytes(run->session.parameters(), run->session.layout()), local_ranks > 1});
  }
  // And behind them a copy that a checkpoint is written from, while workers add to them.
  if (const std::size_t pictures = picture_digest_count(run->data.loader); pictures > 0)
    ranges.push_back({kPictureDigests, 2 * pictures * sizeof(PictureDigest), local_ranks > 1});
  std::size_t index_bytes = 0;
  for (const RecordedSplit& split : run->data.splits) {
    index_bytes += split.manifest->resident_bytes();
    if (split.corpus) index_bytes += split.corpus->own_bytes();
    // One mapping serves all ranks of the machine: each has its share of it.
    if (split.corpus) index_bytes += divide_up(split.corpus->mapped_bytes(), static_cast<std::size_t>(local_ranks));
  }
  run->plan = make_memory_plan(std::move(ranges), kProcessBytes, index_bytes, static_cast<std::size_t>(local_ranks));
  run->plan.program_bytes = kProgramBytes;
  run->plan.workspace_lower_bound_bytes = run->session.workspace_lower_bound_bytes();
  run->plan.largest = run->session.largest(8);
}

}  // namespace

// Whether a choice fits depends on the whole plan, so the plan is made before and after it.
void plan_run_memory(RecordedRun* run) {
  const GradientCheckpointing asked = run->settings.training.gradient_checkpointing;
  const bool trains = run->graphs.trains();
  if (trains && asked == GradientCheckpointing::kSelective)
    run->recomputation = recompute_everywhere(&run->session.graph(run->graphs[Use::kTrain].number), Recompute::kCheap);
  if (trains && asked == GradientCheckpointing::kFull)
    run->recomputation = recompute_everywhere(&run->session.graph(run->graphs[Use::kTrain].number), Recompute::kAll);
  plan_memory(run);
  const std::size_t limit = memory_of_plan(run->settings.machine, read_process_limits());
  if (trains && asked == GradientCheckpointing::kFit && run->plan.peak_bytes() > limit) {
    const std::size_t ranks = run->plan.ranks, workspaces = ranks * align_up(run->plan["workspace"].bytes, kPage);
    const std::size_t others = run->plan.peak_bytes() - workspaces;
    const std::size_t allowed = limit > others ? (limit - others) / ranks / kPage * kPage : 0;
    run->recomputation = recompute_to_fit(&run->session.graph(run->graphs[Use::kTrain].number),
                                          run->session.layout_with_room(), allowed);
    plan_memory(run);
  }
  if (run->recomputation.layers > 0 && asked != GradientCheckpointing::kSelective)
    run->notes.push_back("plan: " + run->recomputation.text());
}

}  // namespace bascule
