// SPDX-License-Identifier: Apache-2.0
#include "src/logs/json_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/files/durable_write.h"
#include "src/json/json.h"
#include "src/json/json_stream.h"

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

enum class LineKind : int { kStep, kAveraged, kEvaluation };  // in the order in which an update writes them

LineKind kind_of(const Json& line) {
  if (is_of(line, Split::kValidation, true)) return LineKind::kAveraged;
  return is_of(line, Split::kValidation, false) ? LineKind::kEvaluation : LineKind::kStep;
}

struct LogLine {
  std::int64_t step = 0;
  LineKind kind = LineKind::kStep;
  double time = 0.0;  // 0: has none
  Json content;       // null where the line is written from its record
  std::string text;
  bool has_record = false;
};

LogLine log_line(std::string text, Json content) {
  const Json* const time = content.find("time");
  return {content["step"].integer(), kind_of(content), time != nullptr && time->is_number() ? time->number() : 0.0,
          std::move(content),        std::move(text),  false};
}

// One kind of records against the lines of that kind. A record is found where a line has its figures. Each other one is
// written: in place of a line of its update that has no record, else as a new line behind those of its update and
// before those of later ones.
class LogMender {
 public:
  explicit LogMender(std::vector<LogLine>* lines) : lines_(*lines) {}

  template <typename Record, typename... Others>
  std::int64_t mend(LineKind kind, Span<const Record> records, const Others&... others) {
    std::vector<const Record*> absent;
    for (const Record& record : records) {
      LogLine* const line = find(kind, record.global_step,
                                 [&](const LogLine& one) { return has_figures(one.content, record, others...); });
      if (line != nullptr) line->has_record = true;
      // An evaluation without samples stands for one of which a checkpoint of before keeps nothing.
      const bool is_known = kind == LineKind::kStep || record.samples > 0;
      if (line == nullptr && is_known) absent.push_back(&record);
    }
    for (const Record* record : absent) {
      LogLine* line = find(kind, record->global_step, [](const LogLine&) { return true; });
      if (line == nullptr) line = insert(kind, record->global_step);
      line->has_record = true;
      char text[2048];
      JsonStream stream(Span<char>(text, sizeof text));
      compose(&stream, *record, line->time, others...);
      line->text = std::string(stream.text());
    }
    return static_cast<std::int64_t>(absent.size());
  }

  // Those without a record.
  std::int64_t remove_unknown(LineKind kind) {
    const auto first = std::remove_if(lines_.begin(), lines_.end(),
                                      [&](const LogLine& line) { return line.kind == kind && !line.has_record; });
    const std::int64_t removed = lines_.end() - first;
    lines_.erase(first, lines_.end());
    return removed;
  }

 private:
  template <typename Is>
  LogLine* find(LineKind kind, std::int64_t step, const Is& is) {
    for (LogLine& line : lines_) {
      if (line.step == step && line.kind == kind && !line.has_record && is(line)) return &line;
    }
    return nullptr;
  }

  // With the time of a line beside it.
  LogLine* insert(LineKind kind, std::int64_t step) {
    const auto place = std::find_if(lines_.begin(), lines_.end(), [&](const LogLine& line) {
      return line.step > step || (line.step == step && line.kind > kind);
    });
    LogLine line;
    line.step = step;
    line.kind = kind;
    line.time = place != lines_.begin() ? std::prev(place)->time : place != lines_.end() ? place->time : unix_seconds();
    return &*lines_.insert(place, std::move(line));
  }

  std::vector<LogLine>& lines_;
};

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

LogRepair cut_log_after(const std::string& folder, std::int64_t step, std::int64_t evaluated,
                        const KnownRecords& known) {
  const std::string path = folder + "/" + kLogFile;
  std::ifstream file(path, std::ios::binary);
  std::string whole, text;
  std::vector<LogLine> lines;
  std::int64_t unread = 0, unread_at_end = 0;  // at the end: of updates that are computed again, or in the records
  while (std::getline(file, text)) {
    whole += text + (file.eof() ? "" : "\n");
    Json line = file.eof() ? Json() : line_of(text);  // one that a killed run did not end has no line break
    if (line.is_null()) {
      unread_at_end += file.eof() ? 0 : 1;
    } else if (stays(line, step, evaluated)) {
      unread += std::exchange(unread_at_end, 0);
      lines.push_back(log_line(text, std::move(line)));
    }
  }
  const std::size_t read = lines.size();
  LogMender mender(&lines);
  LogRepair repair;
  repair.written = mender.mend(LineKind::kStep, known.steps) +
                   mender.mend(LineKind::kAveraged, known.averaged, known.metrics) +
                   mender.mend(LineKind::kEvaluation, known.evaluations, known.metrics);
  const std::int64_t written_anew = static_cast<std::int64_t>(lines.size() - read);
  if (known.has_every_step) unread += mender.remove_unknown(LineKind::kStep);
  repair.removed = std::max<std::int64_t>(unread - written_anew, 0);
  std::string kept;
  for (const LogLine& line : lines) kept += line.text + "\n";
  if (kept != whole) write_output_file(path, kept);
  return repair;
}

}  // namespace bascule
