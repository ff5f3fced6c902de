// SPDX-License-Identifier: Apache-2.0
// log.jsonl: a line for every logged interval and every evaluation, written while the run goes on, with the keys of
// trainer_state.json's log_history and the time. Lines are put together in a buffer inside the log and written by one
// write(2) each: a reader sees whole lines. open() and cut_log_after() belong before the seal; the rest is sealed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "src/base/descriptor.h"
#include "src/base/span.h"
#include "src/base/status.h"
#include "src/logs/step_record.h"

namespace bascule {

class JsonStream;

inline constexpr char kLogFile[] = "log.jsonl";

class JsonLog {
 public:
  JsonLog() = default;  // writes nothing, every call succeeds: ranks other than 0

  // Appends to folder/log.jsonl. Throws Error{kDisk}.
  static JsonLog open(const std::string& folder);

  // unix_seconds: when it was written.
  Status step(const StepRecord& record, double unix_seconds) noexcept;
  Status evaluation(const EvaluationRecord& record, Metrics metrics, double unix_seconds) noexcept;
  // Lines on the disk before a checkpoint says that they are there.
  Status sync() noexcept;

 private:
  static constexpr std::size_t kLineBytes = 2048;

  template <typename Record, typename... Others>
  Status write(const Record& record, double unix_seconds, const Others&... others) noexcept;
  Status write_line(const JsonStream& line) noexcept;

  Descriptor file_;
  char line_[kLineBytes] = {};
};

// The records of a checkpoint, whose bytes were checked; those that a long run has thinned away are not among them.
struct KnownRecords {
  Span<const StepRecord> steps;
  Span<const EvaluationRecord> evaluations, averaged;
  Metrics metrics;
  bool has_every_step = false;  // none was thinned away: a line without a record is none of this run
};

struct LogRepair {
  std::int64_t written = 0;  // lines that were missing, or had other figures than their record
  std::int64_t removed = 0;  // lines that were damaged and of which no record is known
};

// On resume: leaves no line of a later update than `step`, none of an evaluation later than `evaluated` or of the test
// file, which will be made again, and no half line at the end. Each known record has its line afterwards, one written
// anew where the file lacks it; such a line has the time of the one that it replaces, else of a line beside it, else
// the time of now. Without records an absent file stays absent. Throws Error{kDisk}.
LogRepair cut_log_after(const std::string& folder, std::int64_t step, std::int64_t evaluated,
                        const KnownRecords& known = {});

}  // namespace bascule
