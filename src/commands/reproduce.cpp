// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/base/readable.h"
#include "src/commands/commands.h"
#include "src/commands/report_error.h"
#include "src/files/durable_write.h"
#include "src/finish/judge_repeat.h"
#include "src/finish/run_record.h"
#include "src/json/json.h"
#include "src/serve/access_log.h"
#include "src/settings/command_line_keys.h"

namespace bascule {
namespace {

// The findings of a reproduction, for the document; the text is printed as it is found.
struct Outcome {
  const RecordedFolder& recorded;
  std::vector<Difference> differences;
  Promise promise = Promise::kBits;  // in spite of all of them, and of changes on its way
};

const char* word_of(Promise promise) {
  switch (promise) {
    case Promise::kNothing: return "nothing";
    case Promise::kFigures: return "figures";
    case Promise::kBits: return "bits";
  }
  return "";
}

const char* words_of(Promise promise) {
  switch (promise) {
    case Promise::kNothing: return "another input: nothing is promised";
    case Promise::kFigures: return "bits are not promised, only figures";
    case Promise::kBits: return "bits are still promised";
  }
  return "";
}

Outcome compare(const RecordedFolder& recorded) {
  Outcome outcome{recorded, check_record(recorded), recorded.of_changes};
  for (const Difference& one : outcome.differences) outcome.promise = std::min(outcome.promise, one.promise);
  return outcome;
}

void print_comparison(const Outcome& outcome) {
  std::puts(outcome.recorded.settings.machine.products == Products::kOurs
                ? "bits: Bascule's own matrix products give the same on every x86-64 CPU with AVX2 and FMA"
                : "bits: oneDNN's matrix products give the same on one kind of CPU with the same machine.isa only");
  for (const Difference& one : outcome.differences)
    std::printf("differs: %s (%s)\n", one.what.c_str(), words_of(one.promise));
  for (const std::string& change : outcome.recorded.changes) std::printf("changed on its way: %s\n", change.c_str());
  if (outcome.recorded.of_changes == Promise::kBits) return;
  std::printf("a repetition has the last settings from its first update on: %s\n",
              outcome.recorded.of_changes == Promise::kFigures ? words_of(Promise::kFigures) : "nothing is promised");
}

Json comparison_json(const Outcome& outcome) {
  Json differences = Json::array(), changes = Json::array();
  for (const Difference& one : outcome.differences)
    differences.push_back({{"what", one.what}, {"promise", word_of(one.promise)}});
  for (const std::string& change : outcome.recorded.changes) changes.push_back(change);
  return {{"record", outcome.recorded.folder},
          {"promise", word_of(outcome.promise)},
          {"differences", differences},
          {"changes", changes}};
}

// A folder that is not there yet, and whose settings file is neither.
std::string fresh_folder(const std::string& recorded, const std::string& asked) {
  const auto is_free = [](const std::string& folder) {
    return !std::filesystem::exists(folder) && !std::filesystem::exists(folder + ".toml");
  };
  if (!asked.empty()) {
    std::string folder = absolute_path(asked);
    if (is_free(folder)) return folder;
    throw Error(ErrorKind::kSettings, "--output", shown_path(folder) + ", or a settings file beside it, exists already",
                "name a folder that does not exist");
  }
  const std::string base = absolute_path(recorded);
  for (int number = 1;; ++number) {
    std::string folder = base + "-repeated-" + std::to_string(number);
    if (is_free(folder)) return folder;
  }
}

void print_pace(const RecordedPace& now, const RecordedPace& then, bool draws) {
  if (draws) {
    std::printf("throughput: %s pictures/s; recorded %s\n", readable_number(now.whole).c_str(),
                readable_number(then.whole).c_str());
    return;
  }
  std::printf("throughput: %s samples/s; recorded %s, and %s to %s by logged interval\n",
              readable_number(now.whole).c_str(), readable_number(then.whole).c_str(),
              readable_number(then.least).c_str(), readable_number(then.most).c_str());
}

// A program with sealed settings reads no file; its ranks would run as the settings in it say.
int repeat(Settings settings, const std::string& settings_file) {
  if (sealed_settings() == nullptr) {
    write_output_file(settings_file, print_settings(settings));
    return run_command({settings_file, {}}, false);
  }
  if (settings.distributed.world_size > 1) {
    throw Error(ErrorKind::kSettings, "reproduce", "a program with sealed settings repeats runs of one process only",
                "use the same version of the program without sealed settings, or --check");
  }
  check_own_tree();
  return run_settings(std::move(settings), "", false);
}

// Equal bits, or where they are not promised, equal figures.
bool is_as_recorded(const RepeatJudgement& judgement, Promise promise) {
  return judgement.has_equal_bits || (promise == Promise::kFigures && judgement.has_equal_figures);
}

void print_judgement(const RepeatJudgement& judgement, const Outcome& outcome) {
  if (judgement.has_equal_bits && outcome.recorded.draws()) {
    std::printf("equal bits: %s as recorded\n",
                (count_of(judgement.pictures, "picture") + (judgement.pictures == 1 ? " is" : " are")).c_str());
    return;
  }
  const std::vector<SummedFile>& results = outcome.recorded.record.results;
  const bool has_trained = std::any_of(results.begin(), results.end(), [](const SummedFile& file) {
    return std::filesystem::path(file.path).extension() == ".safetensors";
  });
  if (judgement.has_equal_bits && !has_trained) {
    std::printf(
        "equal bits: %s as recorded\n",
        (count_of(judgement.evaluations, "evaluation") + (judgement.evaluations == 1 ? " is" : " are")).c_str());
    return;
  }
  if (judgement.has_equal_bits) {
    std::printf("equal bits: %s, %s and the weights are as recorded\n",
                count_of(judgement.intervals, "logged interval").c_str(),
                count_of(judgement.evaluations, "evaluation").c_str());
    return;
  }
  std::printf("bits differ: %s\n", judgement.first_difference.c_str());
  if (!outcome.recorded.changes.empty())
    std::puts("the recorded run changed on its way, but its repetition had the last settings from the first update on");
  if (outcome.promise != Promise::kFigures || outcome.recorded.draws()) return;
  std::printf("bits were not promised; figures %s: mean training loss %s, recorded %s\n",
              judgement.has_equal_figures ? "agree within 1 %" : "differ by more than 1 %",
              readable_number(judgement.loss).c_str(), readable_number(judgement.loss_then).c_str());
}

void add_judgement(Json* document, const RepeatJudgement& judgement, const RecordedPace& now, const RecordedPace& then,
                   bool draws) {
  (*document)["equal_bits"] = judgement.has_equal_bits;
  (*document)["first_difference"] = judgement.has_equal_bits ? Json() : Json(judgement.first_difference);
  if (draws) {
    (*document)["equal_pictures"] = static_cast<std::uint64_t>(judgement.pictures);
    (*document)["pictures_per_second"] = now.whole;
    (*document)["recorded_pictures_per_second"] = then.whole;
    return;
  }
  (*document)["equal_intervals"] = static_cast<std::uint64_t>(judgement.intervals);
  (*document)["equal_evaluations"] = static_cast<std::uint64_t>(judgement.evaluations);
  (*document)["equal_figures"] = judgement.has_equal_figures;
  (*document)["train_loss"] = judgement.loss;
  (*document)["recorded_train_loss"] = judgement.loss_then;
  (*document)["samples_per_second"] = now.whole;
  (*document)["recorded_samples_per_second"] = {{"whole_run", then.whole}, {"least", then.least}, {"most", then.most}};
}

int end(Json document, bool is_as_recorded, bool json) {
  document["as_recorded"] = is_as_recorded;
  if (json) std::printf("%s\n", json_text(document, 2).c_str());
  return is_as_recorded ? 0 : exit_code(ErrorKind::kNotAsRecorded);
}

}  // namespace

int reproduce_command(const ReproduceArguments& arguments) {
  if (arguments.answer) return reproduce_answer(arguments);
  if (!arguments.keys.empty())
    throw Error(ErrorKind::kSettings, "reproduce", "a finished run is repeated with its own settings",
                "leave `" + arguments.keys.front() + "` out");
  const RecordedFolder recorded = open_record(arguments.record);
  const bool draws = recorded.draws();
  if (draws && !arguments.check) check_picture_log(recorded);
  const std::string output = arguments.check ? "" : fresh_folder(recorded.folder, arguments.output);
  const Outcome outcome = compare(recorded);
  if (!arguments.json) print_comparison(outcome);
  Json document = comparison_json(outcome);
  if (arguments.check) {
    const bool is_same = outcome.differences.empty();
    if (is_same && !arguments.json) std::puts("nothing differs from the record");
    return end(std::move(document), is_same, arguments.json);
  }
  Settings settings = repeating_settings(recorded.settings, recorded.record);
  settings.run.output_dir = {output, output};
  settings.report.tracking = Tracking::kNone;  // a repetition is no run of its own
  std::fflush(stdout);
  std::optional<OutputToError> redirected;
  if (arguments.json) redirected.emplace();
  const int code = repeat(std::move(settings), output + ".toml");
  redirected.reset();
  if (code != 0) {
    const std::string resume =
        "`bascule run " + shown_path(output + ".toml") + "` resumes the repetition; this command begins another";
    if (code > 128 && sealed_settings() == nullptr) say("reproduce: " + resume);
    if (arguments.json)
      std::fputs(document_of_exit_code(code, output, "the repeated run failed", resume).c_str(), stdout);
    return code;
  }
  const RunRecord now = open_record(output).record;
  const RepeatJudgement judgement =
      draws ? judge_repeated_pictures(recorded.folder, output) : judge_repeat(recorded.record, now);
  if (!arguments.json) {
    if (recorded.record.pace.whole > 0.0) print_pace(now.pace, recorded.record.pace, draws);
    print_judgement(judgement, outcome);
  }
  document["output"] = output;
  add_judgement(&document, judgement, now.pace, recorded.record.pace, draws);
  return end(std::move(document), is_as_recorded(judgement, outcome.promise), arguments.json);
}

namespace {

std::string read_request_body(const std::string& file) {
  std::ifstream stream;
  if (file != "-") stream.open(file, std::ios::binary);
  std::istream& input = file == "-" ? std::cin : stream;
  if (!input) throw Error(ErrorKind::kData, file, "cannot be read", "name a file with the body of the request");
  return {std::istreambuf_iterator<char>(input), {}};
}

std::string body_of(const LoggedAnswer& logged, const std::string& file, const std::string& where) {
  if (!file.empty()) return read_request_body(file);
  if (logged.body) return *logged.body;
  throw Error(ErrorKind::kSettings, where, "does not have the request: the service did not keep requests",
              "name a file with its body: --request FILE");
}

std::int64_t line_number(const std::string& text) {
  std::int64_t line = 0;
  const char* const end = text.data() + text.size();
  const auto [after, failure] = std::from_chars(text.data(), end, line);
  if (failure == std::errc() && after == end) return line;
  throw Error(ErrorKind::kSettings, "--answer", "\"" + text + "\" is not the number of a line", "write LOG LINE");
}

}  // namespace

int reproduce_answer(const ReproduceArguments& arguments) {
  const auto& [log, number] = *arguments.answer;
  const std::int64_t line = line_number(number);
  std::vector<std::string> differences;
  const LoggedAnswer logged = read_logged_answer(log, line, &differences);
  for (std::string& text : differences) text.insert(0, "log: ");
  const std::string where = log + ":" + std::to_string(line);
  const std::string body = body_of(logged, arguments.request, where);
  const auto compare = [&](const char* what, std::string_view now, const std::string& then) {
    if (now != then) differences.push_back(std::string(what) + ": " + std::string(now) + ", recorded " + then);
    return now == then;
  };
  Json document = {{"log", log}, {"line", line}, {"path", logged.path}, {"status", logged.status}};
  std::string said = where + ": refused with status " + std::to_string(logged.status) +
                     ", which depended on the load: the answer is not computed";
  if (!compare("request", Sha256Text(body).text(), logged.request)) {
    said = where + ": another request: its answer is not computed";
  } else if (logged.is_of_model()) {
    const ComputedAnswer answer = compute_answer(settings_to_serve({arguments.record, arguments.keys}), logged, body);
    compare("model", answer.model, logged.model);
    compare("status", std::to_string(answer.status), std::to_string(logged.status));
    const Sha256Text digest(answer.body);
    const bool is_equal = compare("answer", digest.text(), logged.answer);
    said = where + (is_equal
                        ? ": equal bytes: the answer of " + std::to_string(answer.body.size()) + " bytes is as recorded"
                        : ": the answer is not the recorded one");
    document["answer"] = std::string(digest.text());
  }
  const bool is_as_recorded = differences.empty();
  if (arguments.json) {
    Json list = Json::array();
    for (const std::string& text : differences) list.push_back({{"what", text}});
    document["differences"] = list;
    document["as_recorded"] = is_as_recorded;
    std::printf("%s\n", json_text(document, 2).c_str());
  } else {
    for (const std::string& text : differences) std::printf("differs: %s\n", text.c_str());
    std::puts(said.c_str());
  }
  return is_as_recorded ? 0 : exit_code(ErrorKind::kNotAsRecorded);
}

}  // namespace bascule
