// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/verdicts.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace bascule {
namespace {

// How far a figure moves from run to run on an undisturbed machine, and more: what lies in memory moves with its place
// there, what the disk does with what it did before.
struct Tolerance {
  const char* item;
  double share;
  bool follows_clock;  // a clock that moves moves this figure as much
};
constexpr Tolerance kTolerances[] = {{"clock", 0.04, true},   {"products", 0.08, true}, {"jpeg", 0.08, true},
                                     {"kernels", 0.25, true}, {"memory", 0.25, false},  {"allreduce", 0.25, false},
                                     {"latency", 0.3, false}, {"pages", 0.5, false},    {"disk", 0.6, false}};

constexpr double kMuchTaken = 0.05;  // of a figure's time: it says little of the machine

double tolerance_of(const Figure& figure, double clock_swing) {
  for (const Tolerance& tolerance : kTolerances) {
    if (figure.item == tolerance.item) return tolerance.share + (tolerance.follows_clock ? clock_swing : 0.0);
  }
  return 0.25;
}

// How far any core's clock was from the middle of its range between the rounds of one run, as a share of its median:
// about 0.01 on a server of one's own, 0.1 in a virtual machine whose neighbours take turns at the processor's power.
// Rounds from which other processes took time do not show the clock, and no clock moves by more than kMost: a wider
// tolerance would find nothing slower.
double clock_swing(const BringUp& run) {
  constexpr double kMost = 0.5;
  double swing = 0.0;
  for (const Figure& figure : run.figures) {
    if (figure.item != "clock" || figure.rounds.empty() || figure.median() <= 0.0) continue;
    if (figure.taken.share() >= kMuchTaken) continue;
    swing = std::max(swing, 0.5 * std::abs(figure.best() - figure.worst()) / figure.median());
  }
  return std::min(swing, kMost);
}

// Speeds, so that more is better for all.
double speed(const Figure& figure, double value) {
  return figure.more_is_better ? value : value > 0.0 ? 1.0 / value : 0.0;
}

FigureJudgement judge_figure(const Figure& figure, const Figure& was, double tolerance) {
  const double now = speed(figure, figure.median()), before = speed(was, was.median());
  const double best = speed(figure, figure.best()), worst = speed(figure, figure.worst());
  FigureJudgement judgement;
  judgement.verdict = Verdict::kOk;
  if (before <= 0.0) return now > 0.0 ? FigureJudgement{Verdict::kFaster, 0.0, {}} : judgement;
  judgement.change = now / before - 1.0;
  const bool is_of_time = figure.unit != "MiB";  // how much may be locked does not depend on how long it took
  const double taken = is_of_time ? figure.taken.share() - was.taken.share() : 0.0;
  const double by_quota = figure.taken.throttled - was.taken.throttled;
  if (now < before * (1.0 - tolerance) && taken >= kMuchTaken && by_quota < 0.5 * taken) {
    judgement.verdict = Verdict::kDisturbed;
  } else if (now < before * (1.0 - tolerance) && (by_quota >= kMuchTaken || best < before * (1.0 - tolerance)) &&
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

std::vector<FigureJudgement> judge(const BringUp& now, const BringUp& saved) {
  std::vector<FigureJudgement> judgements;
  const double swing = std::max(clock_swing(now), clock_swing(saved));
  for (const Figure& figure : now.figures) {
    const Figure* const was = find_figure(saved, figure.key());
    FigureJudgement judgement;
    if (was != nullptr && !was->rounds.empty() && !figure.rounds.empty())
      judgement = judge_figure(figure, *was, tolerance_of(figure, swing));
    if (judgement.verdict == Verdict::kSlower || judgement.verdict == Verdict::kDisturbed)
      judgement.causes = causes_of(figure, now, was, &saved);
    if (judgement.verdict == Verdict::kDisturbed && judgement.causes.empty()) judgement.causes = {lost_time(figure)};
    judgements.push_back(std::move(judgement));
  }
  return judgements;
}

bool is_as_recorded(const BringUp& now, const std::vector<FigureJudgement>& judgements) {
  return now.bits.wrong.empty() && !now.bits.none_as_recorded &&
         std::none_of(judgements.begin(), judgements.end(),
                      [](const FigureJudgement& one) { return one.verdict == Verdict::kSlower; });
}

}  // namespace bascule
