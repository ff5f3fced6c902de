// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/profile.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/error.h"
#include "src/json/json.h"
#include "src/machine/machine_json.h"

namespace bascule {
namespace {

constexpr const char* kFormat = "bascule bring-up 1";

constexpr std::pair<const char*, double TakenTime::*> kShares[] = {
    {"missing", &TakenTime::missing}, {"run_delay", &TakenTime::delay},        {"throttled", &TakenTime::throttled},
    {"stolen", &TakenTime::stolen},   {"other_processes", &TakenTime::others}, {"siblings", &TakenTime::siblings}};

Json judgement_json(const FigureJudgement& judgement) {
  Json causes = Json::array();
  for (const Cause& cause : judgement.causes)
    causes.push_back({{"name", cause.name}, {"evidence", cause.evidence}, {"remedy", cause.remedy}});
  return {{"verdict", verdict_name(judgement.verdict)}, {"change", judgement.change}, {"causes", std::move(causes)}};
}

Json figure_json(const Figure& figure) {
  Json taken = Json::object();
  for (const auto& [name, share] : kShares) taken[name] = figure.taken.*share;
  return {{"item", figure.item},
          {"name", figure.name},
          {"place", figure.place},
          {"unit", figure.unit},
          {"more_is_better", figure.more_is_better},
          {"rounds", figure.rounds},
          {"median", figure.median()},
          {"limit", figure.limit},
          {"taken", std::move(taken)}};
}

Figure figure_from(const Json& json, const std::string& where) {
  Figure figure;
  figure.item = get_string(json, "item", where);
  figure.name = get_string(json, "name", where);
  figure.place = get_string(json, "place", where);
  figure.unit = get_string(json, "unit", where);
  figure.more_is_better = get_bool(json, "more_is_better", where);
  figure.rounds = get_numbers(json, "rounds", where);
  figure.limit = get_number(json, "limit", where);
  const Json& taken = get_object(json, "taken", where);
  for (const auto& [name, share] : kShares) figure.taken.*share = get_number(taken, name, where);
  return figure;
}

Json bits_json(const BitsResult& bits) {
  Json wrong = Json::array();
  for (const WrongCore& core : bits.wrong)
    wrong.push_back({{"core", core.core}, {"problem", core.problem}, {"passes", core.passes}});
  return {{"passes", bits.passes},
          {"seconds", bits.seconds},
          {"as_recorded", bits.passes > 0 && !bits.none_as_recorded},
          {"wrong_cores", std::move(wrong)}};
}

}  // namespace

Json bring_up_json(const BringUp& bring_up, const std::vector<FigureJudgement>& judgements) {
  Json figures = Json::array();
  for (std::size_t i = 0; i < bring_up.figures.size(); ++i) {
    Json figure = figure_json(bring_up.figures[i]);
    if (i < judgements.size()) figure["judgement"] = judgement_json(judgements[i]);
    figures.push_back(std::move(figure));
  }
  return {{"format", kFormat},
          {"program", bring_up.program},
          {"optimised", bring_up.optimised},
          {"isa", bring_up.isa},
          {"started", bring_up.started},
          {"seconds", bring_up.seconds},
          {"cores", bring_up.cores},
          {"large_page_share", bring_up.huge_share ? Json(*bring_up.huge_share) : Json()},
          {"busiest_other_process", bring_up.neighbour},
          {"bits", bits_json(bring_up.bits)},
          {"figures", std::move(figures)},
          {"machine", machine_json(bring_up.machine)}};
}

BringUp read_profile(const std::string& path) {
  const Json json = read_json_file(path);
  if (!json.is_object() || get_string(json, "format", path, "") != kFormat)
    throw Error(ErrorKind::kData, path, "is not a bringup profile of this version",
                "write one with bascule bringup --save");
  BringUp profile;
  profile.program = get_string(json, "program", path);
  profile.optimised = get_bool(json, "optimised", path);
  profile.isa = get_string(json, "isa", path);
  profile.started = get_string(json, "started", path);
  profile.seconds = get_number(json, "seconds", path);
  profile.cores = get_int(json, "cores", path);
  if (find_member(json, "large_page_share", path) != nullptr)
    profile.huge_share = get_number(json, "large_page_share", path);
  for (const Json& figure : get_array(json, "figures", path)) profile.figures.push_back(figure_from(figure, path));
  profile.machine = machine_from(get_object(json, "machine", path), path);
  return profile;
}

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
