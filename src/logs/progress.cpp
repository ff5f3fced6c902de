// SPDX-License-Identifier: Apache-2.0
#include "src/logs/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "src/base/readable.h"

namespace bascule {
namespace {

constexpr double kRedrawSeconds = 0.2;
constexpr double kTellSeconds = 30.0;
constexpr int kNarrowest = 40;

// A line put together piece by piece; what does not fit is cut.
class Line {
 public:
  void add(const char* format, ...) noexcept __attribute__((format(printf, 2, 3))) {
    va_list arguments;
    va_start(arguments, format);
    const int wanted = std::vsnprintf(text_ + size_, sizeof text_ - size_, format, arguments);
    va_end(arguments);
    if (wanted > 0) size_ = std::min(size_ + static_cast<std::size_t>(wanted), sizeof text_ - 1);
  }
  const char* text() const noexcept { return text_; }
  std::size_t size() const noexcept { return size_; }

 private:
  char text_[640] = {};
  std::size_t size_ = 0;
};

void add_bar(Line& line, double fraction, int cells) noexcept {
  // Eighths of a cell, so that the bar moves smoothly.
  static const char* const kPart[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * cells * 8.0);
  for (int i = 0; i < eighths / 8; ++i) line.add("█");
  line.add("%s", kPart[eighths % 8]);
  for (int i = (eighths + 7) / 8; i < cells; ++i) line.add(" ");
}

// "12:34" or "1:02:03": short and of steady width, for the bar.
void add_clock(Line& line, double seconds) noexcept {
  if (!std::isfinite(seconds) || seconds < 0.0 || seconds > 3.6e8) {
    line.add("--:--");
    return;
  }
  const long long whole = std::llround(seconds);
  if (whole >= 3600) {
    line.add("%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  } else {
    line.add("%02lld:%02lld", whole / 60, whole % 60);
  }
}

int decimal_digits(std::int64_t value) noexcept {
  int digits = 1;
  for (; value >= 10; value /= 10) ++digits;
  return digits;
}

}  // namespace

Progress Progress::on_stderr() noexcept {
  const char* kind = std::getenv("TERM");
  winsize size{};
  const bool terminal = ::isatty(STDERR_FILENO) == 1 && kind != nullptr && std::strcmp(kind, "dumb") != 0 &&
                        ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= kNarrowest;
  return Progress(STDERR_FILENO, terminal, terminal ? size.ws_col : 80);
}

void Progress::begin(const char* label, std::int64_t already_done, std::int64_t total, double now_seconds) noexcept {
  if (running_) end(now_seconds);
  label_ = label;
  running_ = true;
  first_ = already_done;
  total_ = total;
  begin_seconds_ = told_seconds_ = now_seconds;
  last_ = ProgressStep{};
  last_.done = already_done;
  last_.epoch = -1.0;
  last_.loss = std::nan("");
  if (status_ != nullptr) status_->begin(label, already_done, total, now_seconds);
  if (terminal_) draw(now_seconds);
}

void Progress::step(const ProgressStep& step, double now_seconds) noexcept {
  last_ = step;
  if (status_ != nullptr) status_->step(step, now_seconds);
  if (terminal_ && running_ && now_seconds - drawn_seconds_ >= kRedrawSeconds) draw(now_seconds);
  const bool is_evaluation = step.epoch < 0.0;
  if (!terminal_ && running_ && is_evaluation && now_seconds - told_seconds_ >= kTellSeconds) tell(now_seconds);
}

void Progress::tell(double now_seconds) noexcept {
  const int width = decimal_digits(total_);
  Line line;
  line.add("bascule: %s: %s %*lld/%lld", label_, unit_of(label_), width, static_cast<long long>(last_.done),
           static_cast<long long>(total_));
  if (last_.call > 0)
    line.add(", call %lld of %lld for the next %lld", static_cast<long long>(last_.call),
             static_cast<long long>(last_.calls), static_cast<long long>(last_.pictures_of_next));
  if (last_.rows_of_next > 0)
    line.add(", %lld row%s of the next", static_cast<long long>(last_.rows_of_next),
             last_.rows_of_next == 1 ? "" : "s");
  if (last_.tokens_per_second > 0.0) line.add("  %s tokens/s", readable_number(last_.tokens_per_second).c_str());
  const double done_here = last_.amount() - static_cast<double>(first_);
  const double left = static_cast<double>(total_) - last_.amount();
  if (done_here > 0.0 && left > 0.0)
    line.add("  %s left", readable_seconds((now_seconds - begin_seconds_) / done_here * left).c_str());
  line.add("\n");
  put(line.text(), line.size());
  told_seconds_ = now_seconds;
}

void Progress::record(const StepRecord& record) noexcept {
  if (status_ != nullptr) status_->record(record);
  if (terminal_) return;
  const int width = decimal_digits(total_);
  Line line;
  line.add("bascule: %s: step %*lld/%lld", label_, width, static_cast<long long>(record.global_step),
           static_cast<long long>(total_));
  line.add("  epoch %.2f  loss %s", record.epoch, readable_number(record.loss).c_str());
  line.add("  grad norm %s", readable_number(record.grad_norm).c_str());
  line.add("  lr %s", readable_number(record.learning_rate).c_str());
  line.add("  %s samples/s", readable_number(record.samples_per_second).c_str());
  const double waited = record.seconds[static_cast<int>(StepPhase::kWaitForData)];
  line.add("  waited for data %s",
           readable_percent(record.wall_seconds > 0.0 ? waited / record.wall_seconds : 0.0).c_str());
  const std::int64_t left = total_ - record.global_step;
  if (record.steps > 0 && left > 0) {
    const double seconds = record.wall_seconds / static_cast<double>(record.steps) * static_cast<double>(left);
    line.add("  %s left", readable_seconds(seconds).c_str());
  }
  line.add("\n");
  put(line.text(), line.size());
}

void Progress::evaluation(const EvaluationRecord& record, Metrics metrics) noexcept {
  Line line;
  line.add("bascule: %s%s: step %lld", split_name(record.split), record.averaged != 0 ? ", averaged" : "",
           static_cast<long long>(record.global_step));
  if (!std::isnan(record.loss)) line.add("  loss %s", readable_number(record.loss).c_str());
  for (const Metric& metric : metrics) {
    if (std::isnan(record[metric])) continue;
    line.add("  %s %s", metric.title, readable_metric(metric, record[metric]).c_str());
  }
  line.add("  (%s samples in %s)\n", readable_count(record.samples).c_str(), readable_seconds(record.seconds).c_str());
  erase();
  put(line.text(), line.size());
}

void Progress::note(const char* text) noexcept {
  Line line;
  line.add("bascule: %s: %s", label_, text);
  erase();
  put(line.text(), line.size());
  put("\n", 1);
}

void Progress::end(double now_seconds) noexcept {
  if (!running_) return;
  if (terminal_) {
    // The last state stays on the screen.
    draw(now_seconds);
    put("\n", 1);
    drawn_ = false;
  }
  running_ = false;
}

// train  37% ████████▍            453/1225  epoch 1.85  loss 0.4213  34.5/s  04:12 left
void Progress::draw(double now_seconds) noexcept {
  const double fraction = total_ > 0 ? last_.amount() / static_cast<double>(total_) : 1.0;
  const int width = decimal_digits(total_);
  Line tail;
  tail.add(" %*lld/%lld", width, static_cast<long long>(last_.done), static_cast<long long>(total_));
  if (last_.epoch >= 0.0) tail.add("  epoch %.2f", last_.epoch);
  if (!std::isnan(last_.loss)) tail.add("  loss %s", readable_number(last_.loss).c_str());
  if (last_.samples_per_second > 0.0) tail.add("  %s/s", readable_number(last_.samples_per_second).c_str());
  if (last_.tokens_per_second > 0.0) tail.add("  %s tokens/s", readable_number(last_.tokens_per_second).c_str());
  if (last_.call > 0)
    tail.add("  call %lld/%lld", static_cast<long long>(last_.call), static_cast<long long>(last_.calls));
  const double done_here = last_.amount() - static_cast<double>(first_);
  const double elapsed = now_seconds - begin_seconds_;
  if (last_.done >= total_) {
    tail.add("  ");
    add_clock(tail, elapsed);
  } else if (done_here > 0.0) {
    tail.add("  ");
    add_clock(tail, elapsed / done_here * (static_cast<double>(total_) - last_.amount()));
    tail.add(" left");
  }
  Line line;
  line.add("\r%s %3d%% ", label_, static_cast<int>(100.0 * std::clamp(fraction, 0.0, 1.0)));
  const int used = static_cast<int>(line.size()) - 1;  // without the carriage return
  const int room = columns_ - 1 - used;
  const int cells = std::clamp(room - static_cast<int>(tail.size()), 0, 40);
  if (cells >= 4) add_bar(line, fraction, cells);
  line.add("%.*s\033[K", std::max(room - (cells >= 4 ? cells : 0), 0), tail.text());
  put(line.text(), line.size());
  drawn_ = true;
  drawn_seconds_ = now_seconds;
}

void Progress::erase() noexcept {
  if (!terminal_ || !drawn_) return;
  put("\r\033[K", 4);
  drawn_ = false;
  // The next step draws at once.
  drawn_seconds_ = -1e300;
}

void Progress::put(const char* text, std::size_t bytes) noexcept {
  if (fd_ < 0) return;
  const int saved = errno;
  while (bytes > 0) {
    const ssize_t wrote = ::write(fd_, text, bytes);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) break;  // nobody to tell
    text += wrote;
    bytes -= static_cast<std::size_t>(wrote);
  }
  errno = saved;
}

}  // namespace bascule
