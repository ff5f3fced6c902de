// SPDX-License-Identifier: Apache-2.0
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/base/messages.h"
#include "src/base/paths.h"
#include "src/commands/check_outputs.h"
#include "src/commands/commands.h"
#include "src/commands/plan_answers.h"
#include "src/commands/report_error.h"
#include "src/files/durable_write.h"
#include "src/json/json.h"
#include "src/loader/loader_parts.h"
#include "src/pictures/picture_decoder.h"
#include "src/plan/draw_arena.h"
#include "src/record/check_fits.h"
#include "src/record/opened_model.h"
#include "src/record/recorded_draw_run.h"
#include "src/record/recorded_run.h"
#include "src/record/run_inputs.h"
#include "src/record/unread_settings.h"
#include "src/settings/command_line_keys.h"
#include "src/settings/keys.h"

namespace bascule {
namespace {

std::vector<int> cores_of_process() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  return cores;
}

std::optional<Error> why_too_large(RecordedRun& run, const ProcessLimits& now, const std::vector<MemoryLimit>& limits) {
  try {
    check_fits(run, now, limits);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

std::vector<OutputOption> outputs_of(const PlanArguments& arguments) {
  return {{"--svg", arguments.svg}, {"--unit", arguments.unit}};
}

// Before any work.
void check_named_files(const PlanArguments& arguments, const Settings& settings) {
  check_outputs(outputs_of(arguments), named_by_settings(arguments.settings.file, settings));
}

void check_data_files(const PlanArguments& arguments, const RecordedRun& run) {
  if (!is_any_there(outputs_of(arguments))) return;
  CommandReads reads;
  for (const RecordedSplit& split : run.data.splits) {
    const DataFiles& files = split.manifest->files();
    for (const DataFile& file : files.manifests) reads.files.push_back({file.path, "a file of the data"});
    for (const std::string& shard : files.shards) reads.files.push_back({shard, "a file of the data"});
    for (std::int64_t picture = 0; split.manifest->has_pictures() && picture < split.manifest->pictures(); ++picture)
      reads.files.push_back({split.manifest->picture_location(picture), "one of the pictures"});
  }
  check_outputs(outputs_of(arguments), reads);
}

}  // namespace

Json plan_json(const MemoryPlan& plan, const std::optional<Error>& too_large) {
  Json categories = Json::object();
  for (const PlannedRange& range : plan.categories) categories[range.name] = range.bytes;
  if (plan.server_bytes > 0) categories["connections and bodies"] = plan.server_bytes;
  categories["index of the data"] = plan.index_bytes;
  categories["program and libraries"] = plan.program_of_ranks();
  Json largest = Json::array();
  for (const LargestBuffer& buffer : plan.largest) largest.push_back({{"name", buffer.name}, {"bytes", buffer.bytes}});
  Json document = {{"fits", !too_large},
                   {"peak_bytes", plan.peak_bytes()},
                   {"lower_bound_bytes", plan.lower_bound_bytes()},
                   {"categories", categories},
                   {"largest", largest}};
  if (too_large) document["error"] = error_json(*too_large);
  return document;
}

Json inputs_json(const std::vector<InputFolder>& inputs) {
  Json json = Json::array();
  for (const InputFolder& input : inputs) {
    Json folder = Json::object();
    folder["folder"] = input.folder;
    folder["files"] = input.files;
    json.push_back(std::move(folder));
  }
  return json;
}

UnitPlace unit_place(const PlanArguments& arguments) {
  const std::string& file = arguments.settings.file;
  return {program_file(), file.empty() ? "" : std::filesystem::absolute(file).string(), cores_of_process()};
}

int plan_command(const PlanArguments& arguments) {
  Settings settings = settings_of_run(arguments.settings, model_words);
  if (arguments.memory_gib) {
    settings.machine.memory_limit_gib = *arguments.memory_gib;
    settings.origin.where.erase("machine.memory_limit_gib");  // errors are not about the file's line
  }
  check_named_files(arguments, settings);
  refuse_unsupported(settings);
  require_products(settings.machine, settings.origin);
  if (settings.draw.is_given) return plan_drawing(arguments, settings);
  if (only_serves(settings)) return plan_service(arguments, settings);
  if (trains_and_serves(settings) && !arguments.unit.empty())
    throw Error(ErrorKind::kSettings, "--unit",
                "a unit has the memory of one plan, and this file trains and then serves",
                "write a file with [serve] and the trained folder for a unit of its own");
  // Says what is wrong there before anything is read.
  (void)media_options(settings.media_engine.simulation, settings.origin, media_engine_builtin());
  check_output_is_apart(settings);
  const std::unique_ptr<RecordedRun> run =
      record_run(settings, planned_place(settings.distributed, settings.origin), media_engine_builtin(), std::nullopt,
                 NewTokens::kStayInMemory, NewLengths::kAreLimits);
  for (const std::string& note : run->notes) std::fprintf(stderr, "bascule: %s\n", note.c_str());
  check_data_files(arguments, *run);
  const MemoryPlan& plan = run->plan;
  const ProcessLimits now = read_process_limits();
  std::vector<MemoryLimit> limits = limits_of_plan(settings.machine, now);
  if (arguments.memory_gib) limits.front().owner = "--memory-gib";
  const PlanAnswers answers = answer_plan(*run, now, limits, arguments.frontier);
  if (!arguments.svg.empty()) {
    const std::size_t largest = run->session.largest_workspace();
    write_output_file(arguments.svg, draw_arena(run->session.graph(largest), run->session.workspace(largest), true));
  }
  if (!arguments.unit.empty()) write_output_file(arguments.unit, unit_text(*run, unit_place(arguments)));
  const std::optional<Error> too_large = why_too_large(*run, now, limits);
  if (arguments.json) {
    Json document = plan_json(plan, too_large);
    answers.add_to(&document);
    if (arguments.inputs) document["inputs"] = inputs_json(run_inputs(*run));
    std::printf("%s\n", json_text(document, 2).c_str());
  } else {
    std::printf("%s%s", print_memory_plan(plan).c_str(), answers.text().c_str());
    for (const RecordedSplit& split : run->data.splits) {
      const StreamPlan& stream = run->data.plan.streams[split.stream];
      std::printf("%-10s at most %s a batch", split_name(split.split),
                  count_of(stream.bounds.samples(), "sample").c_str());
      for (int text = 0; text < kMaxTexts; ++text) {
        if (!reads_text(run->data.loader, text)) continue;
        std::printf(
            text == 0 ? " with %s (longest text: %s)" : ", %s of second texts (longest: %s)",
            count_of(stream.bounds.samples() * stream.texts[text].of_sample(), text == 0 ? "text row" : "row").c_str(),
            count_of(stream.texts[text].longest, "token").c_str());
      }
      std::printf("\n");
    }
  }
  return too_large ? report_error(*too_large, false) : 0;
}

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
