// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "src/answer/report.h"
#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/base/readable.h"
#include "src/base/systemd.h"
#include "src/checkpoint/hf_write.h"
#include "src/commands/commands.h"
#include "src/commands/report_error.h"
#include "src/distributed/group.h"
#include "src/files/durable_write.h"
#include "src/finish/contracts.h"
#include "src/record/opened_model.h"
#include "src/run_folder/run_marker.h"
#include "src/runtime/choose_isa.h"
#include "src/runtime/guard.h"
#include "src/seal/sealed_writers.h"
#include "src/serve/recorded_service.h"
#include "src/serve/service.h"
#include "src/settings/keys.h"

namespace bascule {
namespace {

constexpr char kLastWordsOfService[] =
    "bascule: serve: second signal: stopping at once; requests that were admitted get no answer\n";

std::string ready_line(const RecordedService& recorded, const Service& service) {
  const bool draws = recorded.model->drawer() != nullptr;
  const std::int64_t rows = draws ? recorded.model->most_rows() : service.batch_room().tokens;
  const std::string batch = readable_seconds(1e-9 * service.row_ns() * static_cast<double>(rows)) +
                            std::string(" for a ") +
                            (draws ? "picture" : "batch of " + readable_count(rows) + std::string(" rows"));
  const std::size_t workers = recorded.workers.size();
  return "bascule: serve: READY: " + recorded.name + " at " + service.address() + ", " +
         (workers > 1 ? std::to_string(workers) + " workers, each " : "") + batch + ", " + service.digest() + "\n";
}

}  // namespace

void refuse_serving(const Settings& settings) {
  if (only_serves(settings))
    throw Error(ErrorKind::kSettings, where_written(settings, "serve"), "[serve] is for `bascule serve`",
                "start it with that command, or write [training] in place of [serve]");
}

namespace {

// Of the folder that a training leaves: as a file with that folder and [serve] has them.
Settings settings_after_training(const Settings& training) {
  Settings settings = default_settings(training.words);
  settings.origin = training.origin;
  settings.origin.where.erase("training.output_dir");  // it only serves
  settings.model.model_name_or_path = training.run.output_dir;
  settings.model.precision = training.model.precision;
  settings.machine = training.machine;
  settings.machine.products = MachineSettings().products;  // those of training alone
  settings.machine.step_seconds = 0.0;
  settings.serve = training.serve;
  return settings;
}

// After the training this program takes its own place, to serve: each has the memory of its own plan. A stop signal
// that comes in between is the service's.
int train_then_serve(const Settings& settings, const SettingsSource& source) {
  if (!place_from_environment().is_alone())
    throw Error(ErrorKind::kSettings, "the launcher's environment", "a service is one process",
                "train with `bascule run`, then serve without the launcher");
  check_service_address(settings);
  if (const int code = run_settings(settings, source.file, false); code != 0) return code;
  std::fflush(stdout);
  leave_stop_signals();
  std::vector<std::string> words = {program_file(), "serve"};
  if (!source.file.empty()) words.push_back(source.file);
  words.insert(words.end(), source.keys.begin(), source.keys.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv(pointers.front(), pointers.data());
  throw Error(ErrorKind::kInternal, words.front(), std::string("cannot be started again: ") + std::strerror(errno));
}

Settings served_settings(const Settings& read) {
  Settings settings = trains_and_serves(read) ? settings_after_training(read) : read;
  if (!settings.serve.is_given)
    throw Error(ErrorKind::kSettings, settings.origin.file, "has no table [serve]",
                "write one, or name the model's folder");
  refuse_unsupported(settings);
  return settings;
}

}  // namespace

Settings settings_to_serve(const SettingsSource& source) {
  return served_settings(settings_of_service(source.file, source.keys, model_words));
}

int serve_command(const SettingsSource& source) {
  check_own_tree();
  const Settings read = settings_of_service(source.file, source.keys, model_words);
  if (trains_and_serves(read) && !is_trained(read)) return train_then_serve(read, source);
  const Settings settings = served_settings(read);
  const Isa isa = choose_isa(settings.machine, settings.model.precision);
  const std::unique_ptr<RecordedService> recorded = record_service(settings);
  check_service_fits(*recorded, read_process_limits());
  say("plan: " + std::string(readable_bytes(recorded->plan.peak_bytes()).c_str()) + " in total");
  if (const std::string note = note_on_bf16(settings.machine, settings.model.precision); !note.empty()) say(note);
  catch_stop_signals(false, kLastWordsOfService);
  const NotifySocket notify = NotifySocket::from_environment();
  Service service(*recorded, isa);
  say(seal_line(isa, settings, 1, recorded->threads));
  const std::string ready = ready_line(*recorded, service);
  seal_memory();
  std::fputs(ready.c_str(), stderr);
  service.serve(stop_signal(), notify);
  ContractFigures figures;
  static_cast<SealedFigures&>(figures) = measure_sealed(1);
  figures.planned_bytes = recorded->plan.peak_bytes();
  std::printf("%s", contract_table(judge_contracts(figures, ServedRequests{})).c_str());
  say("serve: " + count_of(service.answered(), "request") + " answered; batches: " + std::to_string(service.batches()) +
      (service.lost_lines() > 0
           ? "; " + count_of(service.lost_lines(), "line") + " of the access log could not be written"
           : ""));
  return 0;
}

namespace {

// A folder that is removed in the end; a signal to stop waits for that.
class TemporaryFolder : NonCopyable {
 public:
  TemporaryFolder() {
    std::error_code none;  // then the path has no folder
    path_ = (std::filesystem::temp_directory_path(none) / "bascule-plan-XXXXXX").string();
    sigset_t stops;
    sigemptyset(&stops);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&stops, number);
    sigprocmask(SIG_BLOCK, &stops, &before_);
    if (!none && ::mkdtemp(path_.data()) != nullptr) return;
    const std::string reason = none ? none.message() : std::strerror(errno);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
    throw Error(ErrorKind::kDisk, path_, "cannot be made: " + reason, "set TMPDIR to a folder that can be written to");
  }
  ~TemporaryFolder() {
    (void)remove_tree(path_.c_str());
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  sigset_t before_;
};

// The weights' file by the names of its tensors alone: a plan reads no values, but a model may ask whether it has a
// tensor, and whether two are equal, which no two of these are.
void add_tensor_names(const ParameterSet& set, std::vector<float>* values, HfFolderContents* contents) {
  for (int p = 0; p < set.size(); ++p) {
    for (const ParameterPiece& piece : set[p].pieces) {
      values->push_back(static_cast<float>(values->size()));
      contents->tensors.push_back({piece.name, DType::kFloat32, {1}});
    }
  }
  for (std::size_t i = 0; i < values->size(); ++i) contents->tensors[i].data = &(*values)[i];
}

}  // namespace

// From a folder that has the files of the one to come, but no weights.
std::unique_ptr<RecordedService> record_service_after(const RecordedRun& run) {
  const TemporaryFolder folder;
  const std::string& path = folder.path();
  std::vector<float> values;
  HfFolderContents contents = files_beside_weights(run);
  add_tensor_names(run.session.parameters(), &values, &contents);
  throw_if_failed(HfFolderPlan(std::move(contents)).write_into(path.c_str()), path, "writing the model's files");
  Settings trained = run.settings;
  const std::string to_come = std::exchange(trained.run.output_dir.resolved, path);
  write_run_marker(trained, {}, {}, {});
  if (trained.serve.served_model_name.empty())
    trained.serve.served_model_name = std::filesystem::path(absolute_path(to_come)).filename().string();
  try {
    return record_service(served_settings(trained));
  } catch (const Error& error) {
    const auto shown = [&](std::string text) {
      for (std::size_t at = 0; (at = text.find(path, at)) != std::string::npos; at += to_come.size())
        text.replace(at, path.size(), to_come);
      return text;
    };
    throw Error(error.kind(), shown(error.where()), shown(error.problem()), shown(error.what_to_do()), error.reason());
  }
}

}  // namespace bascule
