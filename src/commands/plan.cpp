// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/base/readable.h"
#include "src/commands/bench_figures.h"
#include "src/commands/check_outputs.h"
#include "src/commands/commands.h"
#include "src/commands/plan_answers.h"
#include "src/commands/report_error.h"
#include "src/commands/unit.h"
#include "src/files/durable_write.h"
#include "src/json/json.h"
#include "src/loader/loader_parts.h"
#include "src/machine/machine.h"
#include "src/machine/process_limits.h"
#include "src/pictures/picture_decoder.h"
#include "src/plan/memory_plan.h"
#include "src/record/check_fits.h"
#include "src/record/opened_model.h"
#include "src/record/recorded_draw_run.h"
#include "src/record/recorded_run.h"
#include "src/record/run_inputs.h"
#include "src/runtime/threads.h"
#include "src/settings/command_line_keys.h"
#include "src/settings/keys.h"

namespace bascule {
namespace {

// What a kind of run answers about its plan.
struct PlannedAnswer {
  const Session& session;
  const MemoryPlan& plan;
  std::function<void()> check_fits;  // throws Error
  std::function<std::string()> unit;
  std::function<std::vector<InputFolder>()> inputs;
  std::string text;                   // below the plan
  std::function<void(Json*)> add_to;  // the document; null: nothing
};

std::vector<OutputOption> outputs_of(const PlanArguments& arguments) {
  return {{"--svg", arguments.svg}, {"--unit", arguments.unit}};
}

void check_data_files(const PlanArguments& arguments, const RunData& data) {
  if (!is_any_there(outputs_of(arguments))) return;
  CommandReads reads;
  for (const RecordedSplit& split : data.splits) {
    const DataFiles& files = split.manifest->files();
    for (const DataFile& file : files.manifests) reads.files.push_back({file.path, "a file of the data"});
    for (const std::string& shard : files.shards) reads.files.push_back({shard, "a file of the data"});
    for (std::int64_t picture = 0; split.manifest->has_pictures() && picture < split.manifest->pictures(); ++picture)
      reads.files.push_back({split.manifest->picture_location(picture), "one of the pictures"});
  }
  check_outputs(outputs_of(arguments), reads);
}

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

std::optional<Error> error_of(const std::function<void()>& check) {
  try {
    check();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
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

void check_no_frontier(const PlanArguments& arguments, const std::string& why) {
  if (arguments.frontier) throw Error(ErrorKind::kSettings, "--frontier", why, "leave it out");
}

std::vector<MemoryLimit> limits_of(const PlanArguments& arguments, const Settings& settings, const ProcessLimits& now) {
  std::vector<MemoryLimit> limits = limits_of_plan(settings.machine, now);
  if (arguments.memory_gib) limits.front().owner = "--memory-gib";
  return limits;
}

std::string samples_text(const RunData& data) {
  std::string text;
  for (const RecordedSplit& split : data.splits) {
    const StreamPlan& stream = data.plan.streams[split.stream];
    text += formatted("%-10s at most %s a batch", split_name(split.split),
                      count_of(stream.bounds.samples(), "sample").c_str());
    for (int number = 0; number < kMaxTexts; ++number) {
      if (!reads_text(data.loader, number)) continue;
      const TextPlan& of_text = stream.texts[number];
      text +=
          formatted(number == 0 ? " with %s (longest text: %s)" : ", %s of second texts (longest: %s)",
                    count_of(stream.bounds.samples() * of_text.of_sample(), number == 0 ? "text row" : "row").c_str(),
                    count_of(of_text.longest, "token").c_str());
    }
    text += "\n";
  }
  return text;
}

// None where the plan is for the threads of another machine.
std::optional<ProposedRanks> proposed_ranks(const PlanArguments& arguments, const Settings& settings, int machines) {
  if (arguments.threads) return std::nullopt;
  const std::vector<int> cores = cores_of_process();
  return propose_ranks_for(settings, machines, read_nodes(), {cores.begin(), cores.end()});
}

// This program, the settings file, and the cores that this process may use.
UnitPlace unit_place(const PlanArguments& arguments) {
  const std::string& file = arguments.settings.file;
  return {program_file(), file.empty() ? "" : std::filesystem::absolute(file).string(), cores_of_process()};
}

// A service's socket unit lies beside the unit of the service; "" where no unit is asked for.
std::string socket_file_of(const std::string& unit) {
  if (unit.empty()) return "";
  constexpr char kService[] = ".service";
  const std::size_t stem = unit.rfind(kService);
  if (stem == std::string::npos || stem + sizeof kService - 1 != unit.size())
    throw Error(ErrorKind::kSettings, "--unit", shown_path(unit) + " does not end with " + kService,
                "name it so: the unit of its socket is written beside it");
  return unit.substr(0, stem) + ".socket";
}

// Writes the unit of the socket. Returns that of the service. training: of the run before it; may be null.
std::string write_socket(const PlanArguments& arguments, const RecordedService& service, const RecordedRun* training) {
  const std::string file = socket_file_of(arguments.unit);
  ServiceUnits units =
      service_units(service, training, unit_place(arguments), std::filesystem::path(file).filename().string());
  write_output_file(file, units.socket);
  return units.service;
}

void check_service_memory(const PlanArguments& arguments, const RecordedService& service, const ProcessLimits& now) {
  check_service_fits(service, now, arguments.memory_gib ? "--memory-gib" : "machine.memory_limit_gib");
}

std::string batches_text(const RecordedService& service) {
  std::string text =
      formatted("batches of at most %lld rows of %lld inputs; inputs of at most %lld tokens, %lld at a time\n",
                static_cast<long long>(service.room.tokens), static_cast<long long>(service.room.texts),
                static_cast<long long>(service.model->longest()),
                static_cast<long long>(service.settings.serve.max_concurrent_requests));
  if (const std::size_t workers = service.workers.size(); workers > 1)
    text += formatted("%zu workers with %d threads together: each has %s of its own, all share %s\n", workers,
                      service.threads, readable_bytes(service.plan.arena_bytes).c_str(),
                      readable_bytes(service.plan.shared_bytes).c_str());
  return text;
}

// arena_bytes: of each; shared_bytes: of all together.
void add_workers(const RecordedService& service, Json* document) {
  (*document)["workers"] = {{"count", service.workers.size()},
                            {"threads", service.threads},
                            {"arena_bytes", service.plan.arena_bytes},
                            {"shared_bytes", service.plan.shared_bytes}};
}

// Writes the files that are asked for, and prints the plan. Returns the exit code of plan_command().
int print_plan(const PlanArguments& arguments, const Settings& settings, const PlannedAnswer& run) {
  if (!arguments.svg.empty()) {
    const std::size_t largest = run.session.largest_workspace();
    write_output_file(arguments.svg, draw_arena(run.session.graph(largest), run.session.workspace(largest), true));
  }
  if (!arguments.unit.empty()) write_output_file(arguments.unit, run.unit());
  const std::optional<Error> too_large = error_of(run.check_fits);
  std::optional<SimulatedSpeed> simulated;
  if (arguments.threads && !too_large) {
    try {
      simulated = simulate_speed(settings, static_cast<int>(*arguments.threads));
    } catch (const Error& error) {  // the plan stands
      say("plan: the speed of the threads cannot be simulated here: " + error.problem());
    }
  }
  if (arguments.json) {
    Json document = plan_json(run.plan, too_large);
    if (run.add_to) run.add_to(&document);
    if (simulated) document["simulated"] = simulated->column;
    if (arguments.inputs) document["inputs"] = inputs_json(run.inputs());
    std::printf("%s\n", json_text(document, 2).c_str());
  } else {
    std::printf("%s%s%s", print_memory_plan(run.plan).c_str(), run.text.c_str(),
                simulated ? simulated->text.c_str() : "");
  }
  return too_large ? report_error(*too_large, false) : 0;
}

int plan_service(const PlanArguments& arguments, const Settings& settings) {
  check_no_frontier(arguments, "is of runs that train: a service keeps nothing for gradients");
  if (arguments.threads)
    throw Error(ErrorKind::kSettings, "--threads", "is of runs that train, evaluate or draw", "leave it out");
  const std::unique_ptr<RecordedService> service = record_service(settings);
  return print_plan(
      arguments, settings,
      {service->session, service->plan, [&] { check_service_memory(arguments, *service, read_process_limits()); },
       [&] { return write_socket(arguments, *service, nullptr); }, [&] { return service_inputs(*service); },
       batches_text(*service), [&](Json* document) { add_workers(*service, document); }});
}

// With [serve] that of the service behind it, too: each has the memory of its own plan.
int plan_training(const PlanArguments& arguments, const Settings& settings) {
  // Says what is wrong there before anything is read.
  (void)media_options(settings.media_engine.simulation, settings.origin, media_engine_builtin());
  check_output_is_apart(settings);
  const std::unique_ptr<RecordedRun> run =
      record_run(settings, planned_place(settings.distributed, settings.origin), media_engine_builtin(), std::nullopt,
                 NewTokens::kStayInMemory, NewLengths::kAreLimits);
  for (const std::string& note : run->notes) say(note);
  check_data_files(arguments, run->data);
  const ProcessLimits now = read_process_limits();
  const std::vector<MemoryLimit> limits = limits_of(arguments, settings, now);
  const std::unique_ptr<RecordedService> service = settings.serve.is_given ? record_service_after(*run) : nullptr;
  const PlanAnswers answers = answer_plan(*run, now, limits, arguments.frontier);
  const auto service_fits = [&] { check_service_memory(arguments, *service, now); };
  const std::optional<ProposedRanks> ranks = proposed_ranks(arguments, settings, run->place.nodes);
  std::string text = answers.text() + samples_text(run->data) + ranks_line(ranks, settings.distributed.world_size);
  if (service)
    text += "\nthe service of the trained folder\n" + print_memory_plan(service->plan) + batches_text(*service);
  return print_plan(
      arguments, settings,
      {run->session, run->plan,
       [&] {
         check_fits(*run, now, limits);
         if (service) service_fits();
       },
       [&] { return service ? write_socket(arguments, *service, run.get()) : unit_text(*run, unit_place(arguments)); },
       [&] { return run_inputs(*run); }, text,
       [&](Json* document) {
         answers.add_to(document);
         add_ranks(ranks, document);
         if (!service) return;
         (*document)["service"] = plan_json(service->plan, error_of(service_fits));
         add_workers(*service, &(*document)["service"]);
       }});
}

int plan_drawing(const PlanArguments& arguments, const Settings& settings) {
  check_no_frontier(arguments, "is not supported for a run that draws");
  const RankPlace place = planned_place(settings.distributed, settings.origin);
  const std::unique_ptr<RecordedDrawRun> run = record_draw_run(settings, place);
  for (const std::string& note : run->notes) say(note);
  const std::string of_ranks = place.is_alone() ? "" : " on each of " + std::to_string(place.world_size) + " ranks";
  const std::optional<ProposedRanks> ranks = proposed_ranks(arguments, settings, place.nodes);
  return print_plan(
      arguments, settings,
      {run->session, run->plan, [&] { check_fits(*run, limits_of(arguments, settings, read_process_limits())); },
       [&] { return unit_text(*run, unit_place(arguments)); }, [&] { return draw_inputs(*run); },
       formatted("%s of %lld x %lld pixels, %lld at a time%s, %s of the UNet for each picture\n",
                 count_of(run->list.pictures.size(), "picture").c_str(), static_cast<long long>(run->options.width),
                 static_cast<long long>(run->options.height), static_cast<long long>(run->options.batch),
                 of_ranks.c_str(), count_of(run->program.calls.size(), "call").c_str()) +
           ranks_line(ranks, settings.distributed.world_size),
       [&](Json* document) { add_ranks(ranks, document); }});
}

}  // namespace

int plan_command(const PlanArguments& arguments) {
  Settings settings = settings_of_run(arguments.settings, model_words);
  if (arguments.memory_gib) {
    settings.machine.memory_limit_gib = *arguments.memory_gib;
    settings.origin.where.erase("machine.memory_limit_gib");  // errors are not about the file's line
  }
  if (arguments.threads) {
    settings.machine.threads = *arguments.threads;
    settings.origin.where["machine.threads"] = "--threads";
  }
  const std::string socket_file = settings.serve.is_given ? socket_file_of(arguments.unit) : "";
  std::vector<OutputOption> outputs = outputs_of(arguments);
  outputs.push_back({"--unit", socket_file});
  check_outputs(outputs, named_by_settings(arguments.settings.file, settings));  // before any work
  refuse_unsupported(settings);
  require_products(settings.machine, settings.origin);
  if (settings.draw.is_given) return plan_drawing(arguments, settings);
  if (only_serves(settings)) return plan_service(arguments, settings);
  return plan_training(arguments, settings);
}

}  // namespace bascule
