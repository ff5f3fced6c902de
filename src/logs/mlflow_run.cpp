// SPDX-License-Identifier: Apache-2.0
#include "src/logs/mlflow_run.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>
#include <utility>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/files/durable_write.h"
#include "src/json/json.h"
#include "src/logs/json_log.h"

namespace bascule {
namespace {

constexpr char kIdFile[] = ".mlflow-run";
constexpr char kNameTag[] = "mlflow.runName";

[[noreturn]] void fail(const std::string& path, const char* action, int error) {
  throw Error{ErrorKind::kDisk, path, std::string(action) + " failed: " + std::strerror(error), advice_for_disk(error)};
}

std::int64_t milliseconds(double unix_seconds) { return static_cast<std::int64_t>(unix_seconds * 1000.0); }

// "1700000000123 0.25 12", with a line break.
std::string_view metric_line(std::array<char, 96>* line, double value, std::int64_t step,
                             double unix_seconds) noexcept {
  char* const end = line->data() + line->size();
  char* at = std::to_chars(line->data(), end, milliseconds(unix_seconds)).ptr;
  *at++ = ' ';
  at = std::to_chars(at, end, value).ptr;
  *at++ = ' ';
  at = std::to_chars(at, end, step).ptr;
  *at++ = '\n';
  return {line->data(), static_cast<std::size_t>(at - line->data())};
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// What a log.jsonl gives: metric files, by key, and times; of a log without lines: now.
struct LoggedRun {
  std::map<std::string, std::string> metrics;
  double first = unix_seconds(), last = first;
};

LoggedRun read_log(const std::string& path) {
  LoggedRun run;
  std::ifstream file(path);
  bool is_first = true;
  for (std::string text; std::getline(file, text); is_first = false) {
    const Json line = parse_json(text, path);
    run.last = get_number(line, "time", path);
    if (is_first) run.first = run.last;
    for (const auto& [key, value] : line.items()) {
      if (key == "step" || key == "time" || !value.is_number()) continue;
      std::array<char, 96> buffer;
      run.metrics[key] += metric_line(&buffer, value.number(), get_int(line, "step", path), run.last);
    }
  }
  return run;
}

// Unsynced: the next start writes it anew.
void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) fail(path, "writing", errno);
}

// The folder `name` in `folder` with these files alone, in one instant.
void write_folder(const std::string& folder, const std::string& name, const std::map<std::string, std::string>& files) {
  const std::string beside = folder + "/" + kTemporaryPrefix + name;
  throw_if_failed(remove_tree(beside.c_str()), beside, "removing");
  throw_if_failed(make_folder(beside.c_str()), beside, "making the folder");
  for (const auto& [file, text] : files) write_file(beside + "/" + file, text);
  throw_if_failed(publish_folder(folder.c_str(), name), folder + "/" + name, "renaming");
}

// A string of YAML. Its readers refuse some characters beyond ASCII unless they are escaped, and fold others.
std::string yaml_text(const std::string& text) {
  const std::string line = printable_line(text);
  std::string quoted = "\"";
  for (std::size_t i = 0; i < line.size();) {
    const Utf8Character one = utf8_character(line, i);
    char escaped[11];
    std::snprintf(escaped, sizeof escaped, "\\U%08X", static_cast<unsigned>(one.code_point));
    const bool is_plain = one.bytes == 1 && line[i] != '"' && line[i] != '\\';
    quoted += is_plain ? std::string(1, line[i]) : escaped;
    i += one.bytes;
  }
  return quoted + "\"";
}

// Runs that begin at the same time make the experiment once.
void make_experiment(const std::string& store, double unix_seconds) {
  const std::string folder = store + "/0", meta = folder + "/meta.yaml";
  make_folders(folder);
  const Descriptor lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.is_open()) fail(folder, "opening", errno);
  while (::flock(lock.number(), LOCK_EX) != 0) {
    if (errno != EINTR) fail(folder, "locking", errno);
  }
  if (::access(meta.c_str(), F_OK) == 0) return;
  const std::string now = std::to_string(milliseconds(unix_seconds));
  write_output_file(meta, "artifact_location: " + yaml_text(file_uri(folder)) + "\ncreation_time: " + now +
                              "\nexperiment_id: '0'\nlast_update_time: " + now +
                              "\nlifecycle_stage: active\nname: Default\n");
}

std::string new_id() {
  std::uint64_t random[2] = {};
  if (::getrandom(random, sizeof random, 0) != sizeof random) fail("getrandom", "reading random bytes", errno);
  char text[33];
  std::snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
  return text;
}

// Tensors may take gigabytes, which the store would keep when the output folder is gone. A folder with a run's record
// is an output folder to `bascule list`.
bool is_left_out(const std::filesystem::path& file) {
  return file.extension() == ".safetensors" || file.extension() == ".bin" || file.filename() == "bascule.json";
}

bool is_id(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

struct KnownRun {
  std::string id;
  std::int64_t began_ms = 0;
  std::string output_dir;
};

KnownRun read_known(const std::string& output_dir) {
  std::istringstream text(text_of(output_dir + "/" + kIdFile));
  KnownRun known;
  text >> known.id >> known.began_ms;
  text.ignore();
  std::getline(text, known.output_dir);
  return known;
}

// The run that the folder is already; without an id where it is none. A folder that was moved is the same run, a copy
// another. Where the original was moved meanwhile, the folder that the run was last written from keeps it.
KnownRun found_run(const MlflowPlace& place) {
  const std::string& output_dir = place.output_dir;
  KnownRun known = read_known(output_dir);
  const auto is_elsewhere = [&](const std::string& folder) {
    return folder != output_dir && read_known(folder).id == known.id;
  };
  if (!is_id(known.id)) return {};
  const bool is_copy = is_elsewhere(known.output_dir) ||
                       is_elsewhere(text_of(place.store + "/0/" + known.id + "/tags/" + kMlflowFolderTag));
  return is_copy ? KnownRun{} : known;
}

// That run, or a new one.
KnownRun known_run(const MlflowPlace& place, double unix_seconds) {
  const std::string& output_dir = place.output_dir;
  KnownRun known = found_run(place);
  if (known.id.empty()) known = {new_id(), milliseconds(unix_seconds), ""};
  if (known.output_dir != output_dir) {
    known.output_dir = output_dir;
    write_output_file(output_dir + "/" + kIdFile,
                      known.id + " " + std::to_string(known.began_ms) + " " + output_dir + "\n");
  }
  return known;
}

void take_back(int folder, const char* file, int descriptor, off_t bytes) noexcept {
  if (bytes <= 0 || ::ftruncate(descriptor, bytes) != 0) ::unlinkat(folder, file, 0);
}

}  // namespace

std::string file_uri(const std::string& path) {
  std::string uri = "file://";
  for (const char c : path) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          std::strchr("/-._~", c) != nullptr;
    char escaped[4];
    std::snprintf(escaped, sizeof escaped, "%%%02X", static_cast<unsigned char>(c));
    uri += is_plain ? std::string(1, c) : escaped;
  }
  return uri;
}

std::string mlflow_command(const std::string& store) {
  return "MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri " + file_uri(store);
}

MlflowRun MlflowRun::open(MlflowPlace place, double unix_seconds) {
  MlflowRun run;
  run.place_ = std::move(place);
  make_experiment(run.place_.store, unix_seconds);
  const KnownRun known = known_run(run.place_, unix_seconds);
  run.id_ = known.id;
  run.began_ms_ = known.began_ms;
  const std::string folder = run.folder();
  make_folders(folder + "/tags");
  make_folders(folder + "/artifacts");
  run.place_.tags.push_back({kNameTag, run.place_.name});
  for (const NamedText& tag : run.place_.tags) {
    const std::string path = folder + "/tags/" + tag.name;
    const bool is_ours = tag.name.rfind("bascule.", 0) == 0;
    if (is_ours || ::access(path.c_str(), F_OK) != 0) write_file(path, printable_line(tag.value));
  }
  std::map<std::string, std::string> parameters;
  for (const NamedText& parameter : run.place_.parameters) parameters[parameter.name] = printable_line(parameter.value);
  write_folder(folder, "params", parameters);
  write_folder(folder, "metrics", read_log(run.place_.output_dir + "/" + kLogFile).metrics);
  run.write_meta(MlflowState::kRunning, 0.0);
  run.metrics_ = Descriptor(::open((folder + "/metrics").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!run.is_open()) fail(folder + "/metrics", "opening", errno);
  return run;
}

bool MlflowRun::write_finished(MlflowPlace place) {
  const std::string id = found_run(place).id;
  const std::string finished = "\nstatus: " + std::to_string(static_cast<int>(MlflowState::kFinished)) + "\n";
  if (!id.empty() && text_of(place.store + "/0/" + id + "/meta.yaml").find(finished) != std::string::npos) return false;
  const LoggedRun times = read_log(place.output_dir + "/" + kLogFile);
  open(std::move(place), times.first).end(MlflowState::kFinished, times.last);
  return true;
}

Status MlflowRun::step(const StepRecord& record, double unix_seconds) noexcept {
  Status status = ok_status();
  visit_figures(record, [&](const char* key, auto value) {
    const Status now = append(key, static_cast<double>(value), record.global_step, unix_seconds);
    if (status.ok()) status = now;
  });
  return status;
}

Status MlflowRun::evaluation(const EvaluationRecord& record, Metrics metrics, double unix_seconds) noexcept {
  Status status = ok_status();
  visit_figures(record, metrics, [&](const char* key, auto value) {
    const Status now = append(key, static_cast<double>(value), record.global_step, unix_seconds);
    if (status.ok()) status = now;
  });
  return status;
}

// The file is opened each time: which metrics there are shows as the run goes, and MLflow takes no empty files.
Status MlflowRun::append(const char* key, double value, std::int64_t step, double unix_seconds) noexcept {
  if (!is_open() || !std::isfinite(value)) return ok_status();
  const Descriptor file(::openat(metrics_.number(), key, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file.is_open()) return {StatusCode::kDiskFailed, {errno, 0}};
  std::array<char, 96> buffer;
  const std::string_view line = metric_line(&buffer, value, step, unix_seconds);
  const off_t before = ::lseek(file.number(), 0, SEEK_END);
  const Status written = write_all(file.number(), line.data(), line.size());
  if (!written.ok()) take_back(metrics_.number(), key, file.number(), before);
  return written;
}

void MlflowRun::end(MlflowState state, double unix_seconds) {
  if (!is_open()) return;
  metrics_.reset();
  write_meta(state, unix_seconds);  // before the results, for which a disk may be too full
  if (state == MlflowState::kFinished) link_results();
}

MlflowRun::~MlflowRun() {
  try {
    end(MlflowState::kFailed, unix_seconds());
  } catch (const Error&) {  // the run's own error is the one to tell
  }
}

// Users may change it at any time.
std::string MlflowRun::name() const {
  const std::string name = text_of(folder() + "/tags/" + kNameTag);
  return name.empty() ? place_.name : name;
}

void MlflowRun::write_meta(MlflowState state, double end_seconds) const {
  const char* const user = std::getenv("USER");
  const std::string end = end_seconds > 0.0 ? std::to_string(milliseconds(end_seconds)) : "null";
  write_output_file(folder() + "/meta.yaml",
                    "artifact_uri: " + yaml_text(file_uri(folder() + "/artifacts")) + "\nend_time: " + end +
                        "\nentry_point_name: ''\nexperiment_id: '0'\nlifecycle_stage: active\nrun_id: '" + id_ +
                        "'\nrun_name: " + yaml_text(name()) +
                        "\nsource_name: ''\nsource_type: 4\nsource_version: ''\nstart_time: " +
                        std::to_string(began_ms_) + "\nstatus: " + std::to_string(static_cast<int>(state)) +
                        "\ntags: []\nuser_id: " + yaml_text(user != nullptr ? user : "") + "\n");
}

// MLflow does not follow symbolic links out of this folder, and removes what lies in it with the run. Where the store
// is on another disk, copies.
void MlflowRun::link_results() const {
  namespace fs = std::filesystem;
  for (const std::string& name : folder_entries(place_.output_dir)) {
    const fs::path result = fs::path(place_.output_dir) / name, artifact = fs::path(folder()) / "artifacts" / name;
    if (name.front() == '.' || is_left_out(result) || !fs::is_regular_file(result)) continue;
    std::error_code failed;
    fs::remove(artifact, failed);
    fs::create_hard_link(result, artifact, failed);
    if (failed) write_output_file(artifact.string(), text_of(result.string()));
  }
}

}  // namespace bascule
