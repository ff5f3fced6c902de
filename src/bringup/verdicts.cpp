// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/verdicts.h"

#include <algorithm>
#include <utility>

namespace bascule {
namespace {

// How far a figure moves from run to run on an undisturbed machine, and more: what lies in memory moves with its place
// there, what the disk does with what it did before.
double tolerance_of(const Figure& figure) {
  constexpr std::pair<const char*, double> kItems[] = {{"clock", 0.04},   {"products", 0.08}, {"jpeg", 0.08},
                                                       {"kernels", 0.25}, {"memory", 0.25},   {"allreduce", 0.25},
                                                       {"latency", 0.3},  {"pages", 0.5},     {"disk", 0.6}};
  for (const auto& [item, tolerance] : kItems) {
    if (figure.item == item) return tolerance;
  }
  return 0.25;
}

// Speeds, so that more is better for all.
double speed(const Figure& figure, double value) {
  return figure.more_is_better ? value : value > 0.0 ? 1.0 / value : 0.0;
}

Judgement judge_figure(const Figure& figure, const Figure& was) {
  constexpr double kMuch = 0.05;
  const double now = speed(figure, figure.median()), before = speed(was, was.median());
  const double best = speed(figure, figure.best()), worst = speed(figure, figure.worst());
  const double tolerance = tolerance_of(figure);
  Judgement judgement;
  judgement.verdict = Verdict::kOk;
  if (before <= 0.0) return now > 0.0 ? Judgement{Verdict::kFaster, 0.0, {}} : judgement;
  judgement.change = now / before - 1.0;
  const bool is_of_time = figure.unit != "MiB";  // how much may be locked does not depend on how long it took
  const double taken = is_of_time ? figure.taken.share() - was.taken.share() : 0.0;
  const double by_quota = figure.taken.throttled - was.taken.throttled;
  if (now < before * (1.0 - tolerance) && taken >= kMuch && by_quota < 0.5 * taken) {
    judgement.verdict = Verdict::kDisturbed;
  } else if (now < before * (1.0 - tolerance) && (by_quota >= kMuch || best < before * (1.0 - tolerance)) &&
             best < speed(was, was.worst())) {
    judgement.verdict = Verdict::kSlower;
  } else if (worst > before * (1.0 + tolerance) && worst > speed(was, was.best())) {
    judgement.verdict = Verdict::kFaster;
  }
  return judgement;
}

}  // namespace

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk: return "ok";
    case Verdict::kSlower: return "slower";
    case Verdict::kFaster: return "faster";
    case Verdict::kDisturbed: return "disturbed";
    case Verdict::kUnknown: break;
  }
  return "unknown";
}

std::vector<Judgement> judge(const BringUp& now, const BringUp& saved) {
  std::vector<Judgement> judgements;
  for (const Figure& figure : now.figures) {
    const Figure* const was = find_figure(saved, figure.key());
    Judgement judgement;
    if (was != nullptr && !was->rounds.empty() && !figure.rounds.empty()) judgement = judge_figure(figure, *was);
    if (judgement.verdict == Verdict::kSlower || judgement.verdict == Verdict::kDisturbed)
      judgement.causes = causes_of(figure, now, was, &saved);
    judgements.push_back(std::move(judgement));
  }
  return judgements;
}

bool is_as_recorded(const BringUp& now, const std::vector<Judgement>& judgements) {
  return now.bits.wrong.empty() && !now.bits.none_as_recorded &&
         std::none_of(judgements.begin(), judgements.end(),
                      [](const Judgement& one) { return one.verdict == Verdict::kSlower; });
}

}  // namespace bascule
