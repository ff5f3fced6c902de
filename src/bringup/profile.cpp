// SPDX-License-Identifier: Apache-2.0
// A bring-up as JSON and back, as text and as a page.
#include "src/bringup/profile.h"

#include <algorithm>
#include <cmath>

#include "src/answer/page.h"
#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/json/json.h"
#include "src/json/members.h"
#include "src/machine/machine.h"
#include "src/machine/machine_json.h"

namespace bascule {

constexpr auto members_of(const Cause*) {
  using C = Cause;
  return std::make_tuple(named("name", &C::name), named("evidence", &C::evidence), named("remedy", &C::remedy));
}
constexpr auto members_of(const WrongCore*) {
  using C = WrongCore;
  return std::make_tuple(named("core", &C::core), named("problem", &C::problem), named("passes", &C::passes));
}
constexpr auto members_of(const TakenTime*) {
  using T = TakenTime;
  return std::make_tuple(named("missing", &T::missing), named("run_delay", &T::delay),
                         named("throttled", &T::throttled), named("stolen", &T::stolen),
                         named("other_processes", &T::others), named("siblings", &T::siblings));
}
constexpr auto members_of(const Figure*) {
  using F = Figure;
  return std::make_tuple(named("item", &F::item), named("name", &F::name), named("place", &F::place),
                         named("unit", &F::unit), named("more_is_better", &F::more_is_better),
                         named("rounds", &F::rounds), named("limit", &F::limit), named("taken", &F::taken));
}
constexpr auto members_of(const BringUp*) {
  using B = BringUp;
  return std::make_tuple(named("program", &B::program), named("optimised", &B::optimised), named("isa", &B::isa),
                         named("started", &B::started), named("seconds", &B::seconds), named("cores", &B::cores),
                         named("large_page_share", &B::huge_share), named("figures", &B::figures));
}

namespace {

constexpr const char* kFormat = "bascule bring-up 1";

std::string machine_line(const BringUp& run) {
  const Machine& machine = run.machine;
  return formatted("%s, microcode %s, %lld cores (%s), hypervisor: %s, Linux %s", known(machine.processor.name).c_str(),
                   known(machine.processor.microcode).c_str(), static_cast<long long>(run.cores), run.isa.c_str(),
                   known(machine.processor.hypervisor).c_str(), known(machine.kernel.release).c_str());
}

// Rates of the cores of all nodes: the mean over the pairs of a node that reads and a node that is read.
double mean_rate(const BringUp& run, bool of_own_node) {
  double sum = 0.0;
  int pairs = 0;
  for (const NodeFacts& reader : run.machine.nodes) {
    for (const NodeFacts& read : run.machine.nodes) {
      const std::string key = "memory " + read_of_node(static_cast<int>(read.number)) + " " +
                              cores_of_node(static_cast<int>(reader.number));
      const Figure* const figure = find_figure(run, key);
      if (figure == nullptr || (reader.number == read.number) != of_own_node) continue;
      sum += figure->median();
      ++pairs;
    }
  }
  return pairs > 0 ? sum / pairs : 0.0;
}

ProposedRanks proposed_ranks(const BringUp& run) {
  return propose_ranks(run.machine.nodes, numbers_of_list(run.machine.process.cores));
}

// "memory nodes: 2, distances 10 21; 21 10; ..."
std::string nodes_line(const BringUp& run) {
  const std::vector<NodeFacts>& nodes = run.machine.nodes;
  const ProposedRanks proposed = proposed_ranks(run);
  std::string line = "memory nodes: " + (nodes.empty() ? "unknown" : std::to_string(nodes.size()));
  for (std::size_t i = 0; nodes.size() > 1 && i < nodes.size(); ++i)
    line += (i == 0 ? ", distances " : "; ") + known(nodes[i].distances);
  const double own = mean_rate(run, true), other = mean_rate(run, false);
  if (own > 0.0 && other > 0.0)
    line += formatted("; cores read %.4g GB/s of their own node's memory, %.4g GB/s of another's", own, other);
  return line + "\nranks of a run here: " + std::to_string(proposed.ranks) + " (" + proposed.reason + ")" +
         (proposed.ranks > 1 ? ", where its head allows it: see `bascule plan`" : "");
}

std::string number_text(double number) {
  return number < 1000.0 ? formatted("%.4g", number) : readable_count(std::llround(number)).c_str();
}

// judgements: one for each figure, or none.
Table figures_table(const BringUp& run, const std::vector<FigureJudgement>& judgements) {
  Table table{"Figures",
              {"item", "figure", "where", number("median"), number("range"), number("of limit"), number("taken")}};
  if (!judgements.empty()) table.columns.push_back("against the profile");
  for (std::size_t i = 0; i < run.figures.size(); ++i) {
    const Figure& figure = run.figures[i];
    const auto [least, most] = std::minmax({figure.best(), figure.worst()});
    table.rows.push_back({figure.item, figure.name, figure.place, number_text(figure.median()) + " " + figure.unit,
                          number_text(least) + " to " + number_text(most),
                          figure.limit > 0.0 ? formatted("%.0f %%", 100.0 * figure.median() / figure.limit) : "",
                          formatted("%.0f %%", 100.0 * figure.taken.share())});
    if (judgements.empty()) continue;
    const bool is_known = judgements[i].verdict != Verdict::kUnknown;
    table.rows.back().push_back(std::string(verdict_name(judgements[i].verdict)) +
                                (is_known ? formatted(" %+.0f %%", 100.0 * judgements[i].change) : ""));
  }
  return table;
}

std::string bits_line(const BitsResult& bits, std::int64_t cores) {
  if (bits.passes == 0) return "";
  if (bits.wrong.empty() && !bits.none_as_recorded)
    return formatted("bits: as recorded; cores: %lld, passes: %lld (%.1f s)", static_cast<long long>(cores),
                     static_cast<long long>(bits.passes), bits.seconds);
  std::string lines;
  for (const WrongCore& core : bits.wrong)
    lines += formatted("%sbits: core %d computes wrong bits: %s; in %lld of %lld passes", lines.empty() ? "" : "\n",
                       core.core, core.problem.c_str(), static_cast<long long>(core.passes),
                       static_cast<long long>(bits.passes));
  if (bits.none_as_recorded)
    lines += std::string(lines.empty() ? "" : "\n") + "bits: no core computes the recorded bits";
  return lines;
}

// Each cause once, with the figures that it explains.
struct Explained {
  std::string cause, evidence, remedy;
  std::vector<std::string> figures;
};

std::string label_of(const Figure& figure) {
  return figure.item + " " + figure.name + (figure.place.empty() ? "" : " (" + figure.place + ")");
}

std::vector<Explained> explanations(const BringUp& run, const std::vector<FigureJudgement>& judgements) {
  std::vector<Explained> list;
  const auto add = [&](const Cause& cause, const Figure& figure) {
    const auto known_cause =
        std::find_if(list.begin(), list.end(), [&](const Explained& one) { return one.cause == cause.name; });
    if (known_cause != list.end()) {
      known_cause->figures.push_back(label_of(figure));
    } else {
      list.push_back({cause.name, cause.evidence, cause.remedy, {label_of(figure)}});
    }
  };
  for (std::size_t i = 0; i < run.figures.size(); ++i) {
    if (judgements.empty()) {
      for (const Cause& cause : causes_of(run.figures[i], run, nullptr, nullptr)) add(cause, run.figures[i]);
      continue;
    }
    const bool is_worse = judgements[i].verdict == Verdict::kSlower || judgements[i].verdict == Verdict::kDisturbed;
    for (const Cause& cause : judgements[i].causes) add(cause, run.figures[i]);
    if (is_worse && judgements[i].causes.empty())
      add({"unknown", "nothing that was measured explains it", ""}, run.figures[i]);
  }
  return list;
}

}  // namespace

Json bring_up_json(const BringUp& bring_up, const std::vector<FigureJudgement>& judgements) {
  Json json = written(bring_up);
  for (std::size_t i = 0; i < bring_up.figures.size(); ++i) {
    Json& figure = json["figures"][i];
    figure["median"] = bring_up.figures[i].median();
    if (i < judgements.size())
      figure["judgement"] = {{"verdict", verdict_name(judgements[i].verdict)},
                             {"change", judgements[i].change},
                             {"causes", written(judgements[i].causes)}};
  }
  const BitsResult& bits = bring_up.bits;
  json["format"] = kFormat;
  json["busiest_other_process"] = bring_up.neighbour;
  json["machine"] = machine_json(bring_up.machine);
  json["far_memory_share"] = written(bring_up.far_share);
  const ProposedRanks proposed = proposed_ranks(bring_up);
  json["proposed_ranks"] = {{"world_size", proposed.ranks}, {"reason", proposed.reason}};
  json["bits"] = {{"passes", bits.passes},
                  {"seconds", bits.seconds},
                  {"as_recorded", bits.passes > 0 && !bits.none_as_recorded},
                  {"wrong_cores", written(bits.wrong)}};
  return json;
}

BringUp read_profile(const std::string& path) {
  const Json json = read_json_file(path);
  if (!json.is_object() || get_string(json, "format", path, "") != kFormat)
    throw Error(ErrorKind::kData, path, "is not a bringup profile of this version",
                "write one with bascule bringup --save");
  BringUp profile;
  read_members(json, {path, "", true}, &profile);
  const Json* const far = json.find("far_memory_share");  // older profiles lack it
  if (far != nullptr && far->is_number()) profile.far_share = far->number();
  profile.machine = machine_from(get_object(json, "machine", path), path);
  return profile;
}

std::string bring_up_text(const BringUp& run, const std::vector<FigureJudgement>& judgements) {
  std::string out = machine_line(run) + "\n" + nodes_line(run) + "\n\n" + text_of(figures_table(run, judgements));
  const std::string bits = bits_line(run.bits, run.cores);
  if (!bits.empty()) out += "\n" + bits + "\n";
  for (const Explained& one : explanations(run, judgements)) {
    out += "\ncause " + one.cause + ": " + one.evidence + "\n  of: " + shown_list(one.figures) + "\n";
    if (!one.remedy.empty()) out += "  remedy: " + one.remedy + "\n";
  }
  return out + formatted("\n%.1f s\n", run.seconds);
}

std::string bring_up_html(const BringUp& run, const std::vector<FigureJudgement>& judgements) {
  HtmlPage page;
  page.product = "Bascule bring-up";
  page.title = known(run.machine.processor.name);
  page.note = run.started + " UTC";
  page.subtitle = html_escape(machine_line(run));
  const std::string bits = bits_line(run.bits, run.cores);
  Table causes{"Causes", {"cause", "evidence", "figures", "remedy"}};
  for (const Explained& one : explanations(run, judgements))
    causes.rows.push_back({one.cause, one.evidence, shown_list(one.figures), one.remedy});
  page.sections = {{"", (bits.empty() ? "" : "<p class=\"lead\">" + html_escape(bits) + "</p>\n") + "<p>" +
                            html_escape(nodes_line(run)) + "</p>\n"},
                   {"Causes", html_of(causes)},
                   {"Figures", html_of(figures_table(run, judgements))}};
  return html_page(page);
}

}  // namespace bascule
