// SPDX-License-Identifier: Apache-2.0
#include "src/records/json_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <type_traits>

#include "src/base/check.h"
#include "src/base/error.h"
#include "src/base/open_files.h"
#include "src/files/durable_write.h"
#include "src/json/json.h"
#include "src/json/json_stream.h"
#include "src/records/figures.h"

namespace bascule {
namespace {

// Whether a whole line says what is not computed again.
bool stays(const std::string& text, std::int64_t step, std::int64_t evaluated) {
  Json line;
  try {
    line = parse_json(text, "");
  } catch (const Error&) {
    return false;
  }
  if (!line.is_object() || !line.contains("step") || !line["step"].is_integer()) return false;
  if (line.contains("test_loss") || line.contains("test_ema_loss")) return false;
  const bool is_evaluation = line.contains("eval_loss") || line.contains("eval_ema_loss");
  const std::int64_t limit = is_evaluation ? std::min(step, evaluated) : step;
  return line["step"].integer() <= limit;
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
  line.begin_object();
  line.key("step").integer(record.global_step);
  visit_figures(record, others..., [&](const char* key, auto value) {
    line.key(key);
    if constexpr (std::is_integral_v<decltype(value)>) {
      line.integer(value);
    } else {
      line.number(value);
    }
  });
  line.key("time").number(unix_seconds);
  line.end_object();
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

void cut_log_after(const std::string& folder, std::int64_t step, std::int64_t evaluated) {
  const std::string path = folder + "/" + kLogFile;
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) return;
  std::string kept, line;
  bool changed = false;
  while (std::getline(file, line)) {
    const bool whole = !file.eof();  // a line that a killed run did not end has no line break
    if (whole && stays(line, step, evaluated)) {
      kept += line + "\n";
    } else {
      changed = true;
    }
  }
  if (changed) write_output_file(path, kept);
}

}  // namespace bascule
