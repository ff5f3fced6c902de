// SPDX-License-Identifier: Apache-2.0
// The commands that look at the folders of runs, and the comparison of two.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/commands/check_outputs.h"
#include "src/commands/command_line.h"
#include "src/commands/commands.h"
#include "src/distributed/agreement.h"
#include "src/files/durable_write.h"
#include "src/finish/judge_repeat.h"
#include "src/json/json.h"
#include "src/run_folder/run_folder.h"
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

namespace {

Json division_json(const UpdateDivision& division) {
  return {{"ranks", division.ranks},
          {"samples", division.samples},
          {"micro_batches", division.micro_batches},
          {"mini_batch_size", division.of_piece}};
}

// "2 ranks x 4 samples", "1 rank x 4 samples x 2 micro-batches, in pieces of 3"
std::string division_text(const UpdateDivision& division) {
  const auto counted = [](std::int64_t count, const char* one, const char* many) {
    return std::to_string(count) + " " + (count == 1 ? one : many);
  };
  std::string text = counted(division.ranks, "rank", "ranks") + " x " + counted(division.samples, "sample", "samples");
  if (division.micro_batches > 1) text += " x " + std::to_string(division.micro_batches) + " micro-batches";
  return division.of_piece == 0 ? text : text + ", in pieces of " + std::to_string(division.of_piece);
}

// Says what the division of the samples does to gradients; "" where both runs have the same.
std::string division_note(const UpdateDivision& a, const UpdateDivision& b) {
  if (a == b) return "";
  const std::string both = "(" + division_text(a) + "; " + division_text(b) + ")";
  if (a.all_samples() != b.all_samples()) return "an update has other samples in each run " + both;
  return "the runs divide an update differently " + both +
         ": that alone makes gradients differ by rounding, and with contrastive negatives of one micro-batch by more";
}

// For two runs that draw.
int diff_pictures(const DiffArguments& arguments) {
  const std::vector<PictureLogRow> a = drawn_pictures(arguments.a), b = drawn_pictures(arguments.b);
  const PictureParting parting = find_picture_parting(a, b);
  if (parting.common == 0)
    throw Error(ErrorKind::kData, arguments.b, "has no picture in common with " + shown_path(arguments.a));
  const bool is_equal = parting.kind == PictureParting::Kind::kNone;
  if (arguments.json) {
    Json document = {{"compared", kPictureLogFile},
                     {"equal", is_equal},
                     {"pictures", static_cast<std::uint64_t>(parting.common)},
                     {"equal_pictures", static_cast<std::uint64_t>(parting.equal)},
                     {"pictures_of_a_alone", static_cast<std::uint64_t>(parting.only_a)},
                     {"pictures_of_b_alone", static_cast<std::uint64_t>(parting.only_b)}};
    if (!is_equal) {
      document["picture"] = parting.picture;
      document["kind"] = kind_word(parting.kind);
      document["call"] = parting.call;
      document["calls"] = parting.calls;
    }
    std::printf("%s\n", json_text(document, 2).c_str());
  } else if (is_equal) {
    std::printf("equal: the latents after every call, and the pixels, of %s\n",
                count_of(parting.equal, "picture").c_str());
  } else {
    std::printf("%s\n", parting_text(parting).c_str());
    std::printf("it is the first in the order of the list; %zu of %zu pictures differ\n",
                parting.common - parting.equal, parting.common);
  }
  if (!arguments.json && parting.only_a + parting.only_b > 0)
    std::printf("not compared: %zu that only the first run has, %zu that only the second has\n", parting.only_a,
                parting.only_b);
  if (!arguments.json)
    std::printf(
        "compared: %s of both runs, not the files of the pictures, which `bascule reproduce --check` compares "
        "with each run's record\n",
        kPictureLogFile);
  return is_equal ? 0 : exit_code(ErrorKind::kNotAsRecorded);
}

}  // namespace

int diff_command(const DiffArguments& arguments) {
  const bool a_draws = has_pictures(arguments.a), b_draws = has_pictures(arguments.b);
  if (a_draws && b_draws) return diff_pictures(arguments);
  if (a_draws != b_draws)
    throw Error(ErrorKind::kData, a_draws ? arguments.b : arguments.a,
                "has no pictures, but " + shown_path(a_draws ? arguments.a : arguments.b) + " is of a run that draws",
                "compare two runs of one kind");
  const HashLog a(arguments.a), b(arguments.b);  // in this order: the first that is wrong is named
  const Parting parting = find_parting(a, b);
  const bool is_equal = parting.step == 0;
  if (arguments.json) {
    Json document = {{"compared", kTensorHashesFile},
                     {"equal", is_equal},
                     {"equal_updates", parting.equal_updates},
                     {"first_update", parting.first_common},
                     {"last_update", parting.last_common}};
    if (!is_equal) {
      document["update"] = parting.step;
      document["tensor"] = parting.tensor;
      document["kind"] = parting.is_gradient ? "gradient" : "value";
      document["values_that_differ"] = static_cast<std::uint64_t>(parting.values);
      document["gradients_that_differ"] = static_cast<std::uint64_t>(parting.gradients);
      document["divisions"] = {division_json(parting.division_of_a), division_json(parting.division_of_b)};
    }
    std::printf("%s\n", json_text(document, 2).c_str());
  } else if (is_equal) {
    std::printf("equal: all values and gradients of %lld hashed updates, %lld to %lld\n",
                static_cast<long long>(parting.equal_updates), static_cast<long long>(parting.first_common),
                static_cast<long long>(parting.last_common));
  } else {
    std::printf("update %lld: the %s of %s differs\n", static_cast<long long>(parting.step),
                parting.is_gradient ? "gradient" : "value", parting.tensor.c_str());
    std::printf(
        "it is the first in the order of the tape; differing in this update: values, as it read them: %zu, gradients: "
        "%zu\n",
        parting.values, parting.gradients);
    std::printf("%lld hashed updates before it are equal\n", static_cast<long long>(parting.equal_updates));
    const std::string note = division_note(parting.division_of_a, parting.division_of_b);
    if (!note.empty()) std::printf("%s\n", note.c_str());
  }
  if (!arguments.json) std::printf("compared: %s of both runs\n", kTensorHashesFile);
  return is_equal ? 0 : exit_code(ErrorKind::kNotAsRecorded);
}

}  // namespace bascule
