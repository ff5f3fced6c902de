// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/checkpoint/find_checkpoint.h"
#include "src/commands/check_outputs.h"
#include "src/commands/command_line.h"
#include "src/commands/commands.h"
#include "src/distributed/agreement.h"
#include "src/files/durable_write.h"
#include "src/run_folder/run_folder.h"
#include "src/run_folder/run_list.h"
#include "src/run_folder/run_marker.h"

namespace bascule {
namespace {

void write_page(const ListArguments& arguments, const std::vector<ListedRun>& runs) {
  CommandReads reads;
  for (const ListedRun& run : runs) reads.folders.push_back(run.path);
  check_outputs({{"--html", arguments.html}}, reads);
  const auto with_curves = static_cast<std::size_t>(
      std::count_if(runs.begin(), runs.end(), [](const ListedRun& run) { return !run.curves.empty(); }));
  if (with_curves > kMostCurves)
    throw Error(
        ErrorKind::kSettings, "--html",
        std::to_string(with_curves) + " runs have curves, and a chart shows at most " + std::to_string(kMostCurves),
        "name the folders of the runs to compare");
  write_output_file(arguments.html, runs_html(shown_list(arguments.folders), runs));
}

}  // namespace

int list_command(const ListArguments& arguments) {
  std::vector<std::string> notes;
  const std::vector<ListedRun> runs = list_runs(arguments.folders, &notes);
  for (const std::string& note : notes) std::fprintf(stderr, "bascule: list: left out: %s\n", note.c_str());
  if (runs.empty()) std::fprintf(stderr, "bascule: list: no run in %s\n", shown_list(arguments.folders).c_str());
  if (!arguments.html.empty()) write_page(arguments, runs);
  if (arguments.json) {
    std::fputs(runs_json(runs).c_str(), stdout);
  } else if (!runs.empty()) {
    std::fputs(runs_text(runs).c_str(), stdout);
  }
  return 0;
}

namespace {

[[noreturn]] void refuse(const std::string& folder, const std::string& what, const std::string& what_to_do) {
  throw Error(ErrorKind::kSettings, shown_path(folder), what, what_to_do);
}

}  // namespace

int stop_command(const std::string& run) {
  const RunMarker marker = read_run_marker(run);
  if (!marker.exists) refuse(run, "is not the folder of a run", "name the output_dir of a run");
  if (marker.finished) refuse(run, "holds a finished run", "nothing is left to stop");
  if (!is_in_use(run)) refuse(run, "holds a run that is not running", "start it with `bascule run` first");
  if (marker.draws)
    refuse(run, "holds a run that draws: a part of its pictures is no finished run",
           "interrupt it with SIGINT (Ctrl+C) or SIGTERM: finished pictures are complete; the same command draws the "
           "rest");
  if (marker.settings.find("\ndo_train = true\n") == std::string::npos)
    refuse(run, "holds a run that does not train", "interrupt it with SIGINT (Ctrl+C) or SIGTERM");
  make_stop_request(run);
  std::printf(
      "%s: training ends after the update under way, or where the run is evaluating or saving, after the next; it "
      "then evaluates, saves and finishes\n",
      shown_path(run).c_str());
  return 0;
}

namespace {

void add_list(CLI::App& app, Chosen* chosen) {
  CLI::App* command =
      app.add_subcommand("list", "Show the runs below folders: state, best evaluation, settings that differ");
  auto arguments = std::make_shared<ListArguments>();
  as_folder(command->add_option("folders", arguments->folders, "folders of runs, or folders that hold them"))
      ->required();
  as_output_file(
      command->add_option("--html", arguments->html, "write a page with the curves of these runs to this file"));
  command->add_flag("--json", arguments->json, "print one JSON document on standard output");
  command->callback([=] { *chosen = [=] { return list_command(*arguments); }; });
}

void add_stop(CLI::App& app, Chosen* chosen) {
  CLI::App* command =
      app.add_subcommand("stop", "End a run's training early, at an update of all ranks, and let the run finish");
  auto folder = std::make_shared<std::string>();
  as_path(command->add_option("run", *folder, "output_dir of a run that is running"))->required();
  command->footer("SIGINT (Ctrl+C) and SIGTERM interrupt a run, which then resumes.");
  command->callback([=] { *chosen = [=] { return stop_command(*folder); }; });
}

void add_reproduce(CLI::App& app, Chosen* chosen) {
  CLI::App* command = app.add_subcommand(
      "reproduce", "Repeat a finished run, or an answer of a service, and compare it with its record");
  auto arguments = std::make_shared<ReproduceArguments>();
  as_path(command->add_option("record", arguments->record,
                              "output_dir of a finished run, or its bascule.json; with --answer the model or the file "
                              "that was served"))
      ->required();
  command->add_option("keys", arguments->keys, "with --answer: keys with which it was served, as TABLE.KEY=VALUE");
  CLI::Option* check = command->add_flag(
      "--check", arguments->check,
      "run nothing: compare program, libraries, settings, model, rows, pictures and results with the record");
  as_output_folder(command->add_option("--output", arguments->output,
                                       "new folder for the repeated run (default: beside the recorded one)"))
      ->excludes(check);
  CLI::Option* answer =
      command
          ->add_option("--answer", arguments->answer,
                       "compute an answer again: an access log of `bascule serve`, and the number of a line, from 1")
          ->type_name("LOG LINE")
          ->excludes(check)
          ->excludes("--output");
  as_path(command->add_option("--request", arguments->request,
                              "file with the request's body where the log does not have it; -: standard input"))
      ->needs(answer);
  command->add_flag("--json", arguments->json, "print one JSON document on standard output");
  command->footer("Exit code 7: something is not what was recorded.");
  command->callback([=] { *chosen = [=] { return reproduce_command(*arguments); }; });
}

void add_diff(CLI::App& app, Chosen* chosen) {
  CLI::App* command =
      app.add_subcommand("diff", "Find where two runs differ first: update and tensor, or picture and call");
  auto arguments = std::make_shared<DiffArguments>();
  as_path(command->add_option("run_a", arguments->a, "output_dir of a run; one that trains needs report.hash_steps"))
      ->required();
  as_path(command->add_option("run_b", arguments->b, "output_dir of another run of the same model"))->required();
  command->add_flag("--json", arguments->json, "print one JSON document on standard output");
  command->footer("Exit code 7: the runs differ.");
  command->callback([=] { *chosen = [=] { return diff_command(*arguments); }; });
}

}  // namespace

void add_commands_on_runs(CLI::App& app, Chosen* chosen) {
  add_list(app, chosen);
  add_stop(app, chosen);
  add_reproduce(app, chosen);
  add_diff(app, chosen);
}

}  // namespace bascule
