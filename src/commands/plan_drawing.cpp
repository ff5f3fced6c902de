// SPDX-License-Identifier: Apache-2.0
#include "src/commands/plan_drawing.h"

#include <cstdio>
#include <memory>

#include "src/base/count_of.h"
#include "src/commands/report_error.h"
#include "src/files/durable_write.h"
#include "src/json/json.h"
#include "src/plan/draw_arena.h"
#include "src/record/draw_inputs.h"
#include "src/record/recorded_draw_run.h"
#include "src/record/recorded_run.h"

namespace bascule {
namespace {

std::optional<Error> why_too_large(const RecordedDrawRun& run, bool is_asked) {
  try {
    check_drawing_fits(run, read_process_limits(), is_asked ? "--memory-gib" : "machine.memory_limit_gib");
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

}  // namespace

int plan_drawing(const PlanArguments& arguments, const Settings& settings) {
  if (arguments.frontier)
    throw Error(ErrorKind::kSettings, "--frontier", "is not supported for a run that draws", "leave it out");
  const RankPlace place = planned_place(settings.distributed, settings.origin);
  const std::unique_ptr<RecordedDrawRun> run = record_draw_run(settings, place);
  for (const std::string& note : run->notes) std::fprintf(stderr, "bascule: %s\n", note.c_str());
  if (!arguments.svg.empty()) {
    const std::size_t largest = run->session.largest_workspace();
    write_output_file(arguments.svg, draw_arena(run->session.graph(largest), run->session.workspace(largest), true));
  }
  if (!arguments.unit.empty()) write_output_file(arguments.unit, unit_text(*run, unit_place(arguments)));
  const std::optional<Error> too_large = why_too_large(*run, arguments.memory_gib.has_value());
  if (arguments.json) {
    Json document = plan_json(run->plan, too_large);
    if (arguments.inputs) document["inputs"] = inputs_json(draw_inputs(*run));
    std::printf("%s\n", json_text(document, 2).c_str());
  } else {
    const std::size_t pictures = run->list.pictures.size();
    const std::string calls = count_of(run->program.calls.size(), "call");
    const std::string ranks = place.is_alone() ? "" : " on each of " + std::to_string(place.world_size) + " ranks";
    std::printf("%s%s of %lld x %lld pixels, %lld at a time%s, %s of the UNet for each picture\n",
                print_memory_plan(run->plan).c_str(), count_of(pictures, "picture").c_str(),
                static_cast<long long>(run->options.width), static_cast<long long>(run->options.height),
                static_cast<long long>(run->options.batch), ranks.c_str(), calls.c_str());
  }
  return too_large ? report_error(*too_large, false) : 0;
}

}  // namespace bascule
