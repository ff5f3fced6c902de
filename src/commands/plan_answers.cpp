// SPDX-License-Identifier: Apache-2.0
#include "src/commands/plan_answers.h"

#include <algorithm>
#include <utility>

#include "src/base/error.h"
#include "src/base/readable.h"
#include "src/base/span.h"
#include "src/machine/process_limits.h"
#include "src/plan/choose_recompute.h"
#include "src/record/record_graphs.h"
#include "src/record/recorded_run.h"

namespace bascule {
namespace {

constexpr std::size_t kFrontierPoints = 10;

std::vector<FrontierPoint> frontier_of(RecordedRun& run) {
  Settings settings = run.settings;
  settings.training.gradient_checkpointing = GradientCheckpointing::kOff;
  const RunVariant variant(run, settings);
  const RecordedRun& off = variant.run();
  const Graph& graph = off.session.graph(off.graphs[Use::kTrain].number);
  const double step_flops = flops_of_batch(off);
  const double replays =
      static_cast<double>(pieces_of(off, off.session.graph(off.graphs.of_loss().number).bounds().samples()));
  std::size_t others = 0;
  for (const auto& [use, recorded] : off.graphs.by_use) {
    if (use != Use::kTrain) others = std::max(others, off.session.workspace(recorded.number).bytes);
  }
  const auto peak_with = [&](std::size_t workspace) {
    const std::size_t now = align_up(off.plan["workspace"].bytes, kPage);
    return off.plan.peak_bytes() - off.plan.ranks * (now - align_up(std::max(workspace, others), kPage));
  };
  std::vector<FrontierPoint> points;
  for (const RecomputePlan& plan : RecomputePlanner(graph, off.session.layout_with_room()).frontier(kFrontierPoints))
    points.push_back({peak_with(plan.workspace_bytes), plan.flops * replays, plan.flops * replays / step_flops});
  return points;
}

// The plan of the same run without training.mini_batch_size.
std::size_t whole_batch_bytes(RecordedRun& run) {
  Settings settings = run.settings;
  settings.training.mini_batch_size = 0;
  return RunVariant(run, settings).run().plan.peak_bytes();
}

double mib(std::size_t bytes) { return static_cast<double>(bytes) / 1048576.0; }

}  // namespace

std::string PlanAnswers::text() const {
  std::string text =
      formatted("alive at the peak of the workspace, in MiB %34s %9s %9s\n", "forward", "repeated", "backward");
  for (const AliveLayers& layers : alive) {
    const std::string name = layers.name + (layers.layers > 1 ? " (" + std::to_string(layers.layers) + ")" : "");
    text += formatted("  %-64.64s %10.2f %9.2f %9.2f\n", name.c_str(), mib(layers.forward_bytes),
                      mib(layers.again_bytes), mib(layers.backward_bytes));
  }
  if (pieces > 0)
    text += formatted("a batch in %s: without training.mini_batch_size %34.2f MiB\n", count_of(pieces, "piece").c_str(),
                      mib(whole_batch_bytes));
  if (!batches.empty()) text += "largest training batch of a rank that fits\n";
  for (const Batch& batch : batches) {
    const std::string samples =
        batch.largest.samples == 0 ? std::string("none") : readable_count(batch.largest.samples);
    text += formatted("  %-8s gradient_checkpointing = %-11s %8s%s\n", batch.precision,
                      ("\"" + std::string(batch.checkpointing) + "\"").c_str(), samples.c_str(),
                      batch.largest.is_all_rows ? ", all rows" : "");
  }
  if (!frontier.empty()) text += "memory against repeated operations\n";
  for (const FrontierPoint& point : frontier) {
    text += formatted("  %12.2f MiB %12.3f GFLOP a step  +%.2f %%\n", mib(point.peak_bytes), point.flops * 1e-9,
                      100.0 * point.share);
  }
  return text;
}

void PlanAnswers::add_to(Json* document) const {
  Json layers = Json::array(), largest = Json::object(), points = Json::array();
  for (const AliveLayers& l : alive) {
    layers.push_back({{"name", l.name},
                      {"layers", l.layers},
                      {"forward_bytes", l.forward_bytes},
                      {"repeated_bytes", l.again_bytes},
                      {"backward_bytes", l.backward_bytes}});
  }
  for (const Batch& batch : batches) largest[batch.precision][batch.checkpointing] = batch.largest.samples;
  for (const FrontierPoint& point : frontier) {
    points.push_back(
        {{"peak_bytes", point.peak_bytes}, {"repeated_flops", point.flops}, {"share_of_step", point.share}});
  }
  (*document)["alive_at_peak"] = layers;
  if (pieces > 0) (*document)["pieces"] = {{"count", pieces}, {"peak_bytes_without", whole_batch_bytes}};
  if (!batches.empty()) (*document)["largest_batch"] = largest;
  if (!frontier.empty()) (*document)["frontier"] = points;
}

PlanAnswers answer_plan(RecordedRun& run, const ProcessLimits& now, const std::vector<MemoryLimit>& limits,
                        bool with_frontier) {
  PlanAnswers answers;
  const std::size_t largest = run.session.largest_workspace();
  answers.alive = alive_at_peak(run.session.graph(largest), run.session.workspace(largest));
  if (!run.graphs.trains()) return answers;
  for (const auto& [type, precision] :
       {std::make_pair("float32", Precision::kFloat32), std::make_pair("bf16", Precision::kBf16)}) {
    const LargestBatches found = largest_batches_that_fit(run, precision, now, limits);
    answers.batches.push_back({type, "off", found.off});
    answers.batches.push_back({type, "selective", found.selective});
    answers.batches.push_back({type, "fit", found.fit});
    answers.batches.push_back({type, "full", found.full});
  }
  if (run.graphs.has_pieces()) {
    answers.pieces = pieces_of(run, run.session.graph(run.graphs.of_loss().number).bounds().samples());
    answers.whole_batch_bytes = whole_batch_bytes(run);
  }
  if (with_frontier) answers.frontier = frontier_of(run);
  return answers;
}

namespace {

// Whether other samples of a batch are negatives of a sample: ranks would take them from their own samples alone.
bool needs_whole_batch(const Settings& settings) {
  if (settings.head() == nullptr || !settings.head()->uses_negatives || settings.training.gather_negatives)
    return false;
  return !settings.head()->embeds_texts || has_negatives(settings.training.loss);
}

}  // namespace

ProposedRanks propose_ranks_for(const Settings& settings, int machines, const std::vector<NodeFacts>& nodes,
                                const std::vector<std::int64_t>& cores) {
  const std::int64_t ranks_here = std::max<std::int64_t>(1, settings.distributed.world_size / machines);
  ProposedRanks proposed = propose_ranks(nodes, cores, settings.machine.threads * ranks_here);
  if (proposed.ranks > 1 && needs_whole_batch(settings)) {
    proposed.reason = std::to_string(proposed.ranks) +
                      ", one for each memory node, would each take negatives from their own samples alone, unless "
                      "training.gather_negatives = true";
    proposed.ranks = 1;
  }
  if (machines > 1) proposed.reason += "; on each of " + std::to_string(machines) + " machines like this one";
  proposed.ranks *= machines;
  return proposed;
}

std::string ranks_line(const std::optional<ProposedRanks>& proposed, std::int64_t stated) {
  if (!proposed) return "";
  return "proposed for this machine: distributed.world_size = " + std::to_string(proposed->ranks) +
         (proposed->ranks == stated ? ", as it is" : "; it is " + std::to_string(stated)) + " (" + proposed->reason +
         ")\n";
}

void add_ranks(const std::optional<ProposedRanks>& proposed, Json* document) {
  if (proposed) (*document)["proposed_ranks"] = {{"world_size", proposed->ranks}, {"reason", proposed->reason}};
}

}  // namespace bascule
