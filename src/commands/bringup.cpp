// SPDX-License-Identifier: Apache-2.0
#include "src/commands/commands.h"

#include <algorithm>
#include <cstdio>

#include "src/base/error.h"
#include "src/bringup/bring_up.h"
#include "src/bringup/profile.h"
#include "src/commands/check_outputs.h"
#include "src/commands/report_error.h"
#include "src/files/durable_write.h"
#include "src/json/json.h"

namespace bascule {
namespace {

BringUpOptions options_of(const BringUpArguments& arguments) {
  BringUpOptions options;
  options.seconds = arguments.quick ? 3.0 : 30.0;
  options.bits_seconds = arguments.long_minutes > 0.0 ? 60.0 * arguments.long_minutes : arguments.quick ? 0.0 : 2.0;
  options.only = arguments.only;
  options.folder = arguments.folder;
  return options;
}

// A profile of a busy machine would call an idle one faster, and a slow one ok.
void say_if_disturbed(const BringUp& run) {
  constexpr double kMuch = 0.05;
  double most = 0.0;
  for (const Figure& figure : run.figures) most = std::max(most, figure.unit == "ms" ? 0.0 : figure.taken.share());
  if (most < kMuch) return;
  char line[160];
  std::snprintf(line, sizeof line,
                "bringup: up to %.0f %% of the time of a figure was taken by others%s%s: save a profile of an idle "
                "machine",
                100.0 * most, run.neighbour.empty() ? "" : ", most of all by ", run.neighbour.c_str());
  say(line);
}

}  // namespace

int bringup_command(const BringUpArguments& arguments) {
  CommandReads reads;
  reads.files = {{arguments.against, "the profile of --against"}};
  check_outputs({{"--save", arguments.save}, {"--html", arguments.html}}, reads);
  BringUp saved;
  if (!arguments.against.empty()) saved = read_profile(arguments.against);
  const BringUp run = bring_up(options_of(arguments), say);
  std::vector<FigureJudgement> judgements;
  if (!arguments.against.empty()) judgements = judge(run, saved);
  const std::string document = json_text(bring_up_json(run, judgements), 2) + "\n";
  if (!arguments.save.empty()) {
    say_if_disturbed(run);
    write_output_file(arguments.save, document);
  }
  if (!arguments.html.empty()) write_output_file(arguments.html, bring_up_html(run, judgements));
  std::fputs((arguments.json ? document : bring_up_text(run, judgements)).c_str(), stdout);
  return is_as_recorded(run, judgements) ? 0 : exit_code(ErrorKind::kNotAsRecorded);
}

}  // namespace bascule
