// SPDX-License-Identifier: Apache-2.0
#include "src/logs/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/files/durable_write.h"

namespace bascule {
namespace {

constexpr const char* kFilePrefix = "events.out.tfevents.";

[[noreturn]] void fail_events(const std::string& path, const char* action, int error) {
  throw Error{ErrorKind::kDisk, path, std::string(action) + " failed: " + std::strerror(error),
              std::string(advice_for_disk(error)) + ", or set report.tensorboard = false"};
}

// Joins prefix and name on the stack and adds the scalar.
void add(ScalarEvent& event, const char* prefix, const char* name, double value) noexcept {
  char tag[ScalarEvent::kMaxTagBytes + 1];
  std::snprintf(tag, sizeof tag, "%s/%s", prefix, name);
  event.add_scalar(tag, value);
}

// By StepPhase.
constexpr const char* kPhaseTags[] = {"wait_for_data", "forward", "backward", "reduction", "update"};

std::vector<unsigned char> read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<unsigned char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.is_open() || file.bad()) fail_events(path, "reading", errno);
  return bytes;
}

// False: a record in it is damaged, and not one that a killed run did not write to its end.
bool cut_file_after(const std::string& path, std::int64_t step, std::int64_t evaluated) {
  const std::vector<unsigned char> bytes = read_bytes(path);
  std::string kept;
  bool has_events = false, is_sound = true;
  std::size_t at = 0;
  while (at < bytes.size()) {
    const EventRecord record = read_event_record(Span<const unsigned char>(bytes.data() + at, bytes.size() - at));
    if (record.state == RecordState::kForeign && at == 0) {
      throw Error{ErrorKind::kData, path, "is not a TensorBoard event file", "move it out of the output folder"};
    }
    is_sound = is_sound && (record.state == RecordState::kWhole || record.is_cut);
    if (record.bytes == 0) break;
    if (record.state != RecordState::kWhole) {
      at += record.bytes;
      continue;
    }
    if (record.file_version || record.step <= (record.evaluation ? std::min(step, evaluated) : step)) {
      kept.append(bytes.data() + at, bytes.data() + at + record.bytes);
      has_events = has_events || !record.file_version;
    }
    at += record.bytes;
  }
  if (!has_events) {
    if (::unlink(path.c_str()) != 0) fail_events(path, "removing", errno);
  } else if (kept.size() != bytes.size()) {
    write_output_file(path, kept);
  }
  return is_sound;
}

}  // namespace

TensorBoardWriter TensorBoardWriter::open(const std::string& folder, const EventFileName& name) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail_events(folder, "creating the folder", error.value());
  constexpr int kMostStartsASecond = 1000;
  const std::string prefix = folder + "/" + kFilePrefix + std::to_string(name.unix_seconds) + "." + name.host + "." +
                             std::to_string(name.pid) + ".";
  std::string path;
  TensorBoardWriter writer;
  // In a container every start may have the same process number: another one of this second has its file already.
  for (int start = 0; start < kMostStartsASecond && !writer.is_open(); ++start) {
    path = prefix + std::to_string(start);
    writer.file_ = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644));
    if (!writer.is_open() && errno != EEXIST) break;
  }
  if (!writer.is_open()) fail_events(path, "creating", errno);
  const std::string version = version_event(static_cast<double>(name.unix_seconds));
  const Status status = writer.write_bytes(reinterpret_cast<const unsigned char*>(version.data()), version.size());
  if (!status.ok()) fail_events(path, "writing", static_cast<int>(status.detail[0]));
  return writer;
}

void TensorBoardWriter::text(const std::string& tag, const std::string& markdown, std::int64_t step,
                             double unix_seconds) {
  if (!is_open()) return;
  const std::string event = text_event(tag + "/text_summary", markdown, step, unix_seconds);
  const Status status = write_bytes(reinterpret_cast<const unsigned char*>(event.data()), event.size());
  if (!status.ok()) fail_events("TensorBoard text " + tag, "writing", static_cast<int>(status.detail[0]));
}

Status TensorBoardWriter::step(const StepRecord& record, double unix_seconds) noexcept {
  ScalarEvent event;
  if (!std::isnan(record.loss)) add(event, "train", "loss", record.loss);
  add(event, "train", "grad_norm", record.grad_norm);
  add(event, "train", "learning_rate", record.learning_rate);
  add(event, "train", "epoch", record.epoch);
  add(event, "train", "samples_per_second", record.samples_per_second);
  // Seconds a step.
  const double steps = static_cast<double>(std::max<std::int64_t>(record.steps, 1));
  add(event, "time", "step", record.wall_seconds / steps);
  for (int phase = 0; phase < kStepPhases; ++phase)
    add(event, "time", kPhaseTags[phase], record.seconds[phase] / steps);
  if (!std::isnan(record.loader_samples_per_second))
    add(event, "loader", "could_deliver_samples_per_second", record.loader_samples_per_second);
  add(event, "loader", "ring_occupancy", record.ring_occupancy);
  add(event, "loader", "waited_for_step_seconds", record.loader_wait_seconds);
  add(event, "loader", "step_waited_seconds", record.seconds[static_cast<int>(StepPhase::kWaitForData)]);
  const Span<const unsigned char> bytes = event.finish(record.global_step, unix_seconds);
  return write_bytes(bytes.data(), bytes.size());
}

Status TensorBoardWriter::evaluation(const EvaluationRecord& record, Metrics metrics, double unix_seconds) noexcept {
  const char* const prefix = figure_prefix(record.split, record.averaged != 0);
  ScalarEvent event;
  if (!std::isnan(record.loss)) add(event, prefix, "loss", record.loss);
  add(event, prefix, "runtime", record.seconds);
  if (record.seconds > 0.0) {
    add(event, prefix, "samples_per_second", static_cast<double>(record.samples) / record.seconds);
    add(event, prefix, "steps_per_second", static_cast<double>(record.steps) / record.seconds);
  }
  for (const Metric& metric : metrics) {
    if (!std::isnan(record[metric])) add(event, prefix, metric.key, record[metric]);
  }
  const Span<const unsigned char> bytes = event.finish(record.global_step, unix_seconds);
  return write_bytes(bytes.data(), bytes.size());
}

Status TensorBoardWriter::scalar(const char* tag, double value, std::int64_t step, double unix_seconds) noexcept {
  ScalarEvent event;
  const bool fits = event.add_scalar(tag, value);
  BASCULE_DCHECK(fits);
  if (!fits) return ok_status();
  const Span<const unsigned char> bytes = event.finish(step, unix_seconds);
  return write_bytes(bytes.data(), bytes.size());
}

Status TensorBoardWriter::sync() noexcept {
  if (!is_open() || ::fdatasync(file_.number()) == 0) return ok_status();
  return Status{StatusCode::kDiskFailed, {errno, 0}};
}

Status TensorBoardWriter::write_bytes(const unsigned char* bytes, std::size_t size) noexcept {
  return is_open() ? append_all(file_.number(), bytes, size) : ok_status();
}

std::vector<std::string> cut_events_after(const std::string& folder, std::int64_t step, std::int64_t evaluated) {
  std::error_code error;
  std::vector<std::string> paths;
  for (const std::string& name : names_in(folder, &error)) {
    const std::string path = folder + "/" + name;
    if (!is_file(path)) continue;
    // A leftover of an earlier cut that was killed (write_durably).
    if (name.rfind(std::string(kTemporaryPrefix) + kFilePrefix, 0) == 0) std::filesystem::remove(path);
    if (name.rfind(kFilePrefix, 0) == 0) paths.push_back(path);
  }
  if (error && error != std::errc::no_such_file_or_directory) fail_events(folder, "listing", error.value());
  std::vector<std::string> damaged;
  for (const std::string& path : paths) {
    if (!cut_file_after(path, step, evaluated)) damaged.push_back(path);
  }
  return damaged;
}

}  // namespace bascule
