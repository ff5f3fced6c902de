// SPDX-License-Identifier: Apache-2.0
#include "src/commands/reproduce.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/base/shown_path.h"
#include "src/commands/run.h"
#include "src/files/durable_write.h"
#include "src/record/judge_repeat.h"
#include "src/record/record_check.h"
#include "src/report/readable.h"
#include "src/settings/run_settings.h"

namespace bascule {
namespace {

constexpr int kNotAsRecorded = exit_code(ErrorKind::kNotAsRecorded);

void print_promise(const Settings& settings) {
  std::puts(settings.machine.products == Products::kOurs
                ? "bits: Bascule's own matrix products give the same on every x86-64 CPU with AVX2 and FMA"
                : "bits: oneDNN's matrix products give the same on one kind of CPU with the same machine.isa only");
}

const char* words_of(Promise promise) {
  switch (promise) {
    case Promise::kNothing: return "another input: nothing is promised";
    case Promise::kFigures: return "bits are not promised, only figures";
    case Promise::kBits: return "bits are still promised";
  }
  return "";
}

// Returns what is promised in spite of all of them.
Promise print_differences(const std::vector<Difference>& differences) {
  Promise promise = Promise::kBits;
  for (const Difference& one : differences) {
    std::printf("differs: %s (%s)\n", one.what.c_str(), words_of(one.promise));
    promise = std::min(promise, one.promise);
  }
  return promise;
}

// A folder that is not there yet, and whose settings file is neither.
std::string fresh_folder(const std::string& recorded, const std::string& asked) {
  const auto is_free = [](const std::string& folder) {
    return !std::filesystem::exists(folder) && !std::filesystem::exists(folder + ".toml");
  };
  if (!asked.empty()) {
    const std::string folder = std::filesystem::absolute(asked).lexically_normal().string();
    if (is_free(folder)) return folder;
    throw Error(ErrorKind::kSettings, "--output", shown_path(folder) + ", or a settings file beside it, exists already",
                "name a folder that does not exist");
  }
  std::string base = std::filesystem::absolute(recorded).lexically_normal().string();
  while (base.size() > 1 && base.back() == '/') base.pop_back();
  for (int number = 1;; ++number) {
    const std::string folder = base + "-repeated-" + std::to_string(number);
    if (is_free(folder)) return folder;
  }
}

void print_pace(const RecordedPace& now, const RecordedPace& then) {
  std::printf("throughput: %s samples/s; recorded %s, and %s to %s by logged interval\n",
              readable_number(now.whole).c_str(), readable_number(then.whole).c_str(),
              readable_number(then.least).c_str(), readable_number(then.most).c_str());
}

// A program with sealed settings reads no file; its ranks would run as the settings in it say.
int repeat(Settings settings, const std::string& settings_file) {
  if (sealed_settings() == nullptr) {
    write_output_file(settings_file, print_settings(settings));
    return run_command(settings_file, false);
  }
  if (settings.distributed.world_size > 1) {
    throw Error(ErrorKind::kSettings, "reproduce", "a program with sealed settings repeats runs of one process only",
                "use the same version of the program without sealed settings, or --check");
  }
  return run_settings(std::move(settings), "", false);
}

// Of the run while it went on: a repetition has the last settings from its first update on.
void print_changes(const std::vector<std::string>& changes) {
  for (const std::string& change : changes) std::printf("changed on its way: %s\n", change.c_str());
}

int judge(const RunRecord& then, const RunRecord& now, Promise promise, bool has_changed) {
  const RepeatJudgement judgement = judge_repeat(then, now);
  print_pace(now.pace, then.pace);
  if (judgement.has_equal_bits) {
    std::printf("equal bits: %zu logged intervals, %zu evaluations and the weights are as recorded\n",
                judgement.intervals, judgement.evaluations);
    return 0;
  }
  std::printf("bits differ: %s\n", judgement.first_difference.c_str());
  if (has_changed)
    std::puts("the recorded run changed on its way, but its repetition had the last settings from the first update on");
  if (promise != Promise::kFigures) return kNotAsRecorded;
  std::printf("bits were not promised; figures %s: mean training loss %s, recorded %s\n",
              judgement.has_equal_figures ? "agree within 1 %" : "differ by more than 1 %",
              readable_number(judgement.loss).c_str(), readable_number(judgement.loss_then).c_str());
  return judgement.has_equal_figures ? 0 : kNotAsRecorded;
}

}  // namespace

int reproduce_command(const ReproduceArguments& arguments) {
  const RecordedFolder recorded = open_record(arguments.record);
  const std::string output = arguments.check ? "" : fresh_folder(recorded.folder, arguments.output);
  print_promise(recorded.settings);
  const std::vector<Difference> differences = check_record(recorded);
  const Promise promise = print_differences(differences);
  print_changes(recorded.changes);
  if (arguments.check) {
    if (differences.empty()) std::puts("nothing differs from the record");
    return differences.empty() ? 0 : kNotAsRecorded;
  }
  Settings settings = recorded.settings;
  settings.training.output_dir = {output, output};
  std::fflush(stdout);
  const int code = repeat(std::move(settings), output + ".toml");
  if (code != 0) return code;
  return judge(recorded.record, open_record(output).record, promise, !recorded.changes.empty());
}

}  // namespace bascule
