// SPDX-License-Identifier: Apache-2.0
#include "src/logs/json_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <type_traits>

#include "src/base/check.h"
#include "src/base/error.h"
#include "src/files/durable_write.h"
#include "src/json/json.h"
#include "src/json/json_stream.h"
#include "src/logs/step_record.h"

namespace bascule {
namespace {

// Null where it is no line of a log.
Json line_of(const std::string& text) {
  try {
    Json line = parse_json(text, "");
    if (line.is_object() && line.contains("step") && line["step"].is_integer()) return line;
  } catch (const Error&) {
  }
  return {};
}

// Every evaluation has a runtime; without labels it has no loss.
bool is_of(const Json& line, Split split, bool is_averaged) {
  return line.contains(std::string(figure_prefix(split, is_averaged)) + "_runtime");
}

// Whether the line says what is not computed again.
bool stays(const Json& line, std::int64_t step, std::int64_t evaluated) {
  if (is_of(line, Split::kTest, false) || is_of(line, Split::kTest, true)) return false;
  const bool is_evaluation = is_of(line, Split::kValidation, false) || is_of(line, Split::kValidation, true);
  const std::int64_t limit = is_evaluation ? std::min(step, evaluated) : step;
  return line["step"].integer() <= limit;
}

template <typename Record, typename... Others>
void compose(JsonStream* line, const Record& record, double unix_seconds, const Others&... others) noexcept {
  line->begin_object();
  line->key("step").integer(record.global_step);
  visit_figures(record, others..., [&](const char* key, auto value) {
    line->key(key);
    if constexpr (std::is_integral_v<decltype(value)>) {
      line->integer(value);
    } else {
      line->number(value);
    }
  });
  line->key("time").number(unix_seconds);
  line->end_object();
}

template <typename Record, typename... Others>
bool has_figures(const Json& line, const Record& record, const Others&... others) noexcept {
  bool is_same = true;
  visit_figures(record, others..., [&](const char* key, auto value) {
    const Json* const figure = line.find(key);
    const double number = static_cast<double>(value);
    is_same = is_same && figure != nullptr &&
              (figure->is_number() ? figure->number() == number : figure->is_null() && !std::isfinite(number));
  });
  return is_same;
}

// The line as a record of its update has it, with the time of the line. "": it has the figures of one, or none is
// known.
template <typename Record, typename... Others>
std::string mended(const Json& line, Span<const Record> records, const Others&... others) {
  const Record* other = nullptr;
  for (const Record& record : records) {
    if (record.global_step != line["step"].integer() || std::isnan(record.loss)) continue;
    if (has_figures(line, record, others...)) return "";
    other = &record;
  }
  if (other == nullptr) return "";
  const Json* const time = line.find("time");
  char text[2048];
  JsonStream stream(Span<char>(text, sizeof text));
  compose(&stream, *other, time != nullptr && time->is_number() ? time->number() : 0.0, others...);
  return std::string(stream.text());
}

std::string mended(const Json& line, const KnownRecords& known) {
  if (is_of(line, Split::kValidation, false)) return mended(line, known.evaluations, known.metrics);
  if (is_of(line, Split::kValidation, true)) return mended(line, known.averaged, known.metrics);
  return mended(line, known.steps);
}

}  // namespace

JsonLog JsonLog::open(const std::string& folder) {
  const std::string path = folder + "/" + kLogFile;
  JsonLog log;
  log.file_ = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log.file_.is_open())
    throw Error{ErrorKind::kDisk, path, std::string("cannot be opened: ") + std::strerror(errno),
                advice_for_open(errno)};
  return log;
}

template <typename Record, typename... Others>
Status JsonLog::write(const Record& record, double unix_seconds, const Others&... others) noexcept {
  JsonStream line(Span<char>(line_, sizeof line_));
  compose(&line, record, unix_seconds, others...);
  return write_line(line);
}

Status JsonLog::step(const StepRecord& record, double unix_seconds) noexcept { return write(record, unix_seconds); }

Status JsonLog::evaluation(const EvaluationRecord& record, Metrics metrics, double unix_seconds) noexcept {
  return write(record, unix_seconds, metrics);
}

Status JsonLog::write_line(const JsonStream& line) noexcept {
  if (!file_.is_open()) return ok_status();
  BASCULE_DCHECK(!line.overflowed());
  std::size_t size = line.text().size();
  if (line.overflowed() || size == sizeof line_) return {StatusCode::kDiskFailed, {EOVERFLOW, 0}};
  line_[size++] = '\n';
  return append_all(file_.number(), line_, size);
}

Status JsonLog::sync() noexcept {
  if (!file_.is_open() || ::fdatasync(file_.number()) == 0) return ok_status();
  return {StatusCode::kDiskFailed, {errno, 0}};
}

std::int64_t cut_log_after(const std::string& folder, std::int64_t step, std::int64_t evaluated,
                           const KnownRecords& known) {
  const std::string path = folder + "/" + kLogFile;
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) return 0;
  std::string kept, text;
  bool changed = false;
  std::int64_t damaged = 0;
  while (std::getline(file, text)) {
    const Json line = file.eof() ? Json() : line_of(text);  // one that a killed run did not end has no line break
    if (line.is_null() || !stays(line, step, evaluated)) {
      changed = true;
      if (line.is_null() && !file.eof()) ++damaged;
      continue;
    }
    const std::string anew = mended(line, known);
    if (!anew.empty()) {
      changed = true;
      ++damaged;
    }
    kept += (anew.empty() ? text : anew) + "\n";
  }
  if (changed) write_output_file(path, kept);
  return damaged;
}

}  // namespace bascule
