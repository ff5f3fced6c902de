// SPDX-License-Identifier: Apache-2.0
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
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/logs/run_status.h"
#include "src/logs/step_record.h"

namespace bascule {

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
