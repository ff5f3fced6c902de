// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/profile.h"

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

}  // namespace bascule
