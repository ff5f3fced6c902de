// SPDX-License-Identifier: Apache-2.0
// The state of a run, for whoever supervises it and for whoever watches it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "src/base/descriptor.h"
#include "src/base/systemd.h"
#include "src/logs/step_record.h"

namespace bascule {

// How far a run is within what is under way: what Progress shows and RunStatus tells.

struct ProgressStep {
  std::int64_t done = 0;            // steps done of the total
  double epoch = 0.0;               // negative: not shown (evaluation)
  double loss = 0.0;                // NaN: not shown
  double samples_per_second = 0.0;  // 0: not shown
  double tokens_per_second = 0.0;   // that a model writes; 0: not shown
  std::int64_t rows_of_next = 0;    // of the step under way that are done; 0: not shown
  // Where pictures are drawn: those under way, and the calls of the sampler for them, done and in all; 0: not shown.
  std::int64_t pictures_of_next = 0, call = 0, calls = 0;

  // The done part of the total, with the part of the batch under way.
  double amount() const {
    const double part = calls > 0 ? static_cast<double>(call) / static_cast<double>(calls) : 0.0;
    return static_cast<double>(done) + part * static_cast<double>(pictures_of_next);
  }
};

// The state of a run for whoever supervises it: status.json and bascule.prom (Prometheus' text format) in the run's
// folder, written anew every few seconds, each beside and then renamed, so that a reader sees whole files; and what
// systemd is told (READY=1 with the first update or evaluation, or at the end; a status line; STOPPING=1 where it is
// stopped or fails). Progress tells it what happens. A file that cannot be written is no reason to stop a run. open()
// belongs before the seal; the rest is sealed: fixed buffers, no allocation.

inline constexpr char kStatusFile[] = "status.json";
inline constexpr char kMetricsFile[] = "bascule.prom";

// The unit of a total, by its label: "train", "draw", or a split that is evaluated.
inline const char* unit_of(const char* label) noexcept {
  return std::strcmp(label, "train") == 0 ? "step" : std::strcmp(label, "draw") == 0 ? "picture" : "batch";
}

class RunStatus {
 public:
  // seconds: between two writes; 0: no files. Throws Error{kDisk}.
  void open(const std::string& folder, double seconds, NotifySocket notify);

  // label: a literal, as Progress has it: "train", "draw", or a split. done, total: updates, pictures, or batches of an
  // evaluation.
  void begin(const char* label, std::int64_t done, std::int64_t total, double now_seconds) noexcept;
  void step(const ProgressStep& step, double now_seconds) noexcept;
  void record(const StepRecord& record) noexcept;
  // state: "finished", "stopped" or "failed", by an error; written at once.
  void end(const char* state) noexcept;

 private:
  void tell(double now_seconds) noexcept;
  void write() noexcept;
  std::size_t put_metrics() noexcept;
  void replace(const char* name, const char* temporary, std::size_t bytes) noexcept;

  static constexpr std::size_t kTextBytes = 4096;

  Descriptor folder_;
  NotifySocket notify_;
  double seconds_ = 0.0, told_seconds_ = -1e300, begin_seconds_ = 0.0, seconds_left_ = -1.0;
  bool is_ready_ = false;
  const char* state_ = "starting";
  const char* label_ = "";
  std::int64_t first_ = 0, total_ = 0;  // of what is under way
  ProgressStep now_;
  std::int64_t updates_ = 0, planned_updates_ = 0;
  double epoch_ = 0.0, loss_ = 0.0, gradient_norm_ = 0.0, learning_rate_ = 0.0, samples_per_second_ = 0.0;
  double started_unix_ = 0.0;
  char text_[kTextBytes] = {};
};

// Progress output of a run: on a terminal one line with a bar, redrawn in place at most five times a second; in a log
// plain lines, one a record, and one every half minute of an evaluation, which has no records. Sealed: no
// allocation, fixed buffers, one write(2) a line; a full or closed stderr is ignored, progress never stops a run. Times
// are given by the caller (seconds of a monotonic clock).
//
//   Progress progress = Progress::on_stderr();
//   progress.begin("train", 0, 1225, now);
//   each step:    progress.step({done, epoch, loss, samples_per_second}, now);
//   each record:  progress.record(step_record);       // a plain line in a log; on a terminal it only feeds the bar
//   progress.note("saved checkpoint-500 in 0.8 s");    // a line of its own on both
//   progress.end(now);

class Progress {
 public:
  // Draws on file descriptor `fd`; terminal: a bar, else lines. columns: width of the terminal.
  Progress(int fd, bool terminal, int columns) noexcept : fd_(fd), terminal_(terminal), columns_(columns) {}
  // A bar if stderr is a terminal of at least 40 columns (and TERM is not "dumb"), else lines.
  static Progress on_stderr() noexcept;
  // Says nothing at all: ranks other than 0.
  static Progress silent() noexcept { return Progress(-1, false, 0); }

  // Passes on to it what happens. Outlives this.
  void tell_also(RunStatus* status) noexcept { status_ = status; }

  // label: a literal, kept by pointer. already_done: steps done before this process (resume).
  void begin(const char* label, std::int64_t already_done, std::int64_t total, double now_seconds) noexcept;
  void step(const ProgressStep& step, double now_seconds) noexcept;
  void record(const StepRecord& record) noexcept;
  void evaluation(const EvaluationRecord& record, Metrics metrics) noexcept;
  // A line of its own, printed as "bascule: <label>: <text>".
  void note(const char* text) noexcept;
  void end(double now_seconds) noexcept;

 private:
  void draw(double now_seconds) noexcept;
  void tell(double now_seconds) noexcept;
  void erase() noexcept;
  void put(const char* text, std::size_t bytes) noexcept;

  int fd_ = -1;
  bool terminal_ = false;
  int columns_ = 80;
  const char* label_ = "";
  bool running_ = false;
  bool drawn_ = false;  // the bar is on the screen now
  std::int64_t first_ = 0;
  std::int64_t total_ = 0;
  double begin_seconds_ = 0.0;
  double drawn_seconds_ = 0.0;
  double told_seconds_ = 0.0;
  ProgressStep last_;
  RunStatus* status_ = nullptr;
};

}  // namespace bascule
