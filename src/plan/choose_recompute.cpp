// SPDX-License-Identifier: Apache-2.0
#include "src/plan/choose_recompute.h"

#include <algorithm>
#include <utility>

#include "src/plan/workspace.h"

namespace bascule {
namespace {

// Searches for one limit: first with ever less memory until places fit too, by this part of the limit and twice as much
// each time, or by what places took too much; then with as much as still fits.
constexpr int kSearches = 12;
constexpr std::size_t kFirstStep = 2048;

struct SearchState {
  std::size_t kept = 0;
  double flops = 0.0;
  std::size_t before = 0;  // the state that it comes from
  Recompute choice = Recompute::kNothing;
};

// Those that no other state beats in both, in the order of their bytes.
std::vector<SearchState> without_worse(std::vector<SearchState> states) {
  std::stable_sort(states.begin(), states.end(), [](const SearchState& a, const SearchState& b) {
    return std::make_pair(a.kept, a.flops) < std::make_pair(b.kept, b.flops);
  });
  std::vector<SearchState> best;
  for (const SearchState& state : states) {
    if (best.empty() || state.flops < best.back().flops) best.push_back(state);
  }
  return best;
}

}  // namespace

std::optional<std::vector<Recompute>> RecomputePlanner::search(const BytesOfLayers& bytes,
                                                               std::size_t workspace_bytes) const {
  const std::size_t limit = workspace_bytes + gradient_bytes_;
  const std::size_t layers = measured_.flops.size();
  std::vector<std::vector<SearchState>> states = {{SearchState{}}};  // by number of layers decided
  for (std::size_t l = 0; l < layers; ++l) {
    std::vector<SearchState> next;
    for (std::size_t s = 0; s < states[l].size(); ++s) {
      const SearchState& from = states[l][s];
      for (std::size_t c = 0; c < kRecomputeChoices; ++c) {
        if (from.kept + bytes.layers[l].working[c] > limit) continue;
        next.push_back(
            {from.kept + bytes.layers[l].kept[c], from.flops + measured_.flops[l][c], s, static_cast<Recompute>(c)});
      }
    }
    states.push_back(without_worse(std::move(next)));
  }
  // More bytes, fewer operations: the last state that leaves room for the last layer repeats least.
  std::size_t s = states.back().size();
  while (s > 0 && states.back()[s - 1].kept + bytes.last_working > limit) --s;
  if (s == 0) return std::nullopt;
  --s;
  std::vector<Recompute> choice(layers);
  for (std::size_t l = layers; l-- > 0;) {
    choice[l] = states[l + 1][s].choice;
    s = states[l + 1][s].before;
  }
  return choice;
}

RecomputePlan RecomputePlanner::plan(std::vector<Recompute> choice) const {
  RecomputePlan result;
  Graph graph = graph_;
  recompute(graph, choice);
  const GradientSpace space = layout_ != nullptr ? find_gradient_space(graph, *layout_) : GradientSpace{};
  result.workspace_bytes = plan_workspace(graph, layout_ != nullptr ? &space : nullptr).bytes;
  for (std::size_t l = 0; l < choice.size(); ++l)
    result.flops += measured_.flops[l][static_cast<std::size_t>(choice[l])];
  result.choice = std::move(choice);
  return result;
}

RecomputePlan RecomputePlanner::everywhere(Recompute choice) const {
  return plan(std::vector<Recompute>(measured_.flops.size(), choice));
}

RecomputePlan RecomputePlanner::smallest() const {
  RecomputePlan best = everywhere(Recompute::kAll);
  std::size_t fails = 0, works = best.workspace_bytes;
  while (works - fails > best.workspace_bytes / 256) {
    const std::size_t middle = fails + (works - fails) / 2;
    (search(measured_.most, middle) ? works : fails) = middle;
  }
  if (const auto choice = search(measured_.most, works)) {
    RecomputePlan found = plan(*choice);
    if (found.workspace_bytes <= best.workspace_bytes) best = std::move(found);
  }
  return best;
}

std::optional<RecomputePlan> RecomputePlanner::fit(std::size_t bytes) const {
  std::optional<RecomputePlan> best;
  std::size_t limit = bytes, fails = bytes, works = 0, step = bytes / kFirstStep;  // of lifetimes
  for (int i = 0; i < kSearches; ++i) {
    const std::optional<std::vector<Recompute>> choice = search(measured_.most, limit);
    if (!choice) break;
    RecomputePlan found = plan(*choice);
    const bool is_placed = found.workspace_bytes <= bytes;
    (is_placed ? works : fails) = limit;
    if (is_placed && limit == bytes) return found;
    const std::size_t down = std::max(step, found.workspace_bytes - std::min(bytes, found.workspace_bytes));
    if (is_placed && (!best || found.flops < best->flops)) best = std::move(found);
    limit = best ? works + (fails - works) / 2 : limit - std::min(limit, down);
    step *= 2;
  }
  if (best) return best;
  RecomputePlan least = smallest();
  if (least.workspace_bytes <= bytes) best = std::move(least);
  return best;
}

double RecomputePlanner::least_flops(std::size_t bytes) const {
  const std::optional<std::vector<Recompute>> choice = search(measured_.least, bytes);
  double flops = 0.0;
  for (std::size_t l = 0; l < measured_.flops.size(); ++l) {
    // Where lifetimes alone take more than that, nothing fits, whatever it repeats.
    flops += measured_.flops[l][static_cast<std::size_t>(choice ? (*choice)[l] : Recompute::kAll)];
  }
  return flops;
}

std::vector<RecomputePlan> RecomputePlanner::frontier(std::size_t count) const {
  std::vector<RecomputePlan> plans = {smallest()};
  RecomputePlan last = everywhere(Recompute::kNothing);
  const std::size_t first_bytes = plans.front().workspace_bytes;
  const std::size_t span = last.workspace_bytes - std::min(first_bytes, last.workspace_bytes);
  for (std::size_t i = 1; i + 1 < count; ++i) {
    const auto choice = search(measured_.most, first_bytes + span / (count - 1) * i);
    if (choice) plans.push_back(plan(*choice));
  }
  plans.push_back(std::move(last));
  // Places may turn the order of neighbours round: one that takes no less and repeats no less than another goes.
  std::vector<RecomputePlan> best;
  for (RecomputePlan& plan : plans) {
    while (!best.empty() && best.back().workspace_bytes >= plan.workspace_bytes && best.back().flops >= plan.flops)
      best.pop_back();
    if (best.empty() || plan.flops < best.back().flops) best.push_back(std::move(plan));
  }
  return best;
}

}  // namespace bascule
