// SPDX-License-Identifier: Apache-2.0
#include "src/commands/commands_on_runs.h"

#include <memory>
#include <string>

#include "src/commands/command_line.h"
#include "src/commands/diff.h"
#include "src/commands/list.h"
#include "src/commands/reproduce.h"
#include "src/commands/stop.h"

namespace bascule {
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
  CLI::App* command = app.add_subcommand("reproduce", "Repeat a finished run and compare it with its record");
  auto arguments = std::make_shared<ReproduceArguments>();
  as_path(command->add_option("record", arguments->record, "output_dir of a finished run, or its bascule.json"))
      ->required();
  CLI::Option* check = command->add_flag(
      "--check", arguments->check,
      "run nothing: compare program, libraries, settings, model, rows, pictures and results with the record");
  as_output_folder(command->add_option("--output", arguments->output,
                                       "new folder for the repeated run (default: beside the recorded one)"))
      ->excludes(check);
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
