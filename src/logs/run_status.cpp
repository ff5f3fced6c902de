// SPDX-License-Identifier: Apache-2.0
#include "src/logs/progress.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/readable.h"
#include "src/files/durable_write.h"
#include "src/json/json_stream.h"

namespace bascule {
namespace {

constexpr char kTemporaryStatus[] = ".tmp-bascule-status.json";
constexpr char kTemporaryMetrics[] = ".tmp-bascule-bascule.prom";
constexpr double kStatusLineSeconds = 5.0;  // between two status lines where no files are written

struct MetricLine {
  const char* name;
  const char* type;
  const char* help;
  double value;
};

bool is_training(const char* label) noexcept { return std::strcmp(label, "train") == 0; }

}  // namespace

void RunStatus::open(const std::string& folder, double seconds, NotifySocket notify) {
  notify_ = std::move(notify);
  seconds_ = seconds;
  started_unix_ = unix_seconds();
  if (seconds <= 0.0) return;
  folder_ = Descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_.is_open())
    throw Error{ErrorKind::kDisk, folder, std::string("cannot be opened: ") + std::strerror(errno),
                advice_for_open(errno)};
}

void RunStatus::begin(const char* label, std::int64_t done, std::int64_t total, double now_seconds) noexcept {
  label_ = label;
  state_ = "running";
  first_ = done;
  now_ = ProgressStep{};
  now_.done = done;
  total_ = total;
  begin_seconds_ = now_seconds;
  seconds_left_ = -1.0;
  if (!is_training(label)) return;
  updates_ = done;
  planned_updates_ = total;
}

void RunStatus::step(const ProgressStep& step, double now_seconds) noexcept {
  now_ = step;
  if (is_training(label_)) {
    updates_ = step.done;
    epoch_ = step.epoch;
    loss_ = step.loss;
    samples_per_second_ = step.samples_per_second;
  }
  const double interval = seconds_ > 0.0 ? seconds_ : kStatusLineSeconds;
  if (is_ready_ && now_seconds - told_seconds_ < interval) return;
  const double here = step.amount() - static_cast<double>(first_);
  const double left = static_cast<double>(total_) - step.amount();
  if (here > 0.0) seconds_left_ = std::max(0.0, (now_seconds - begin_seconds_) / here * left);
  tell(now_seconds);
}

void RunStatus::record(const StepRecord& record) noexcept {
  gradient_norm_ = record.grad_norm;
  learning_rate_ = record.learning_rate;
  samples_per_second_ = record.samples_per_second;
}

void RunStatus::end(const char* state) noexcept {
  state_ = state;
  seconds_left_ = 0.0;
  // A unit of Type=notify that ends well without READY=1 has failed for systemd.
  if (!is_ready_ && std::strcmp(state, "failed") != 0) notify_.send("READY=1\n");
  is_ready_ = true;
  // What has finished ends by itself, or is served next by the same process, which systemd would then take for
  // stopping.
  notify_.send(std::strcmp(state, "finished") == 0 ? "STATUS=the run has finished\n"
                                                   : "STOPPING=1\nSTATUS=the run ends\n");
  write();
}

void RunStatus::tell(double now_seconds) noexcept {
  told_seconds_ = now_seconds;
  char loss[48] = "", call[64] = "", left[48] = "", line[320];
  if (is_training(label_)) std::snprintf(loss, sizeof loss, ", loss %s", readable_number(loss_).c_str());
  if (now_.calls > 0)
    std::snprintf(call, sizeof call, ", call %lld of %lld", static_cast<long long>(now_.call),
                  static_cast<long long>(now_.calls));
  if (seconds_left_ >= 0.0) std::snprintf(left, sizeof left, ", %s left", readable_seconds(seconds_left_).c_str());
  std::snprintf(line, sizeof line, "%sSTATUS=%s: %s %lld of %lld%s%s%s\n", is_ready_ ? "" : "READY=1\n", label_,
                unit_of(label_), static_cast<long long>(now_.done), static_cast<long long>(total_), call, loss, left);
  is_ready_ = true;
  notify_.send(line);
  write();
}

void RunStatus::write() noexcept {
  if (!folder_.is_open()) return;
  JsonStream out(Span<char>(text_, sizeof text_ - 1));
  out.begin_object();
  out.key("state").string(state_);
  out.key("phase").string(label_);
  out.key("done").integer(now_.done);
  out.key("total").integer(total_);
  out.key("call").integer(now_.call);
  out.key("calls").integer(now_.calls);
  out.key("update").integer(updates_);
  out.key("updates").integer(planned_updates_);
  out.key("epoch").number(epoch_);
  out.key("loss").number(loss_);
  out.key("grad_norm").number(gradient_norm_);
  out.key("learning_rate").number(learning_rate_);
  out.key("samples_per_second").number(samples_per_second_);
  out.key("seconds_left").number(seconds_left_ >= 0.0 ? seconds_left_ : std::nan(""));
  out.key("started").number(started_unix_);
  out.key("time").number(unix_seconds());
  out.end_object();
  if (!out.overflowed()) {
    const std::size_t bytes = out.text().size();
    text_[bytes] = '\n';
    replace(kStatusFile, kTemporaryStatus, bytes + 1);
  }
  replace(kMetricsFile, kTemporaryMetrics, put_metrics());
}

std::size_t RunStatus::put_metrics() noexcept {
  const MetricLine lines[] = {
      {"bascule_updates_total", "counter", "Updates of the run so far.", static_cast<double>(updates_)},
      {"bascule_planned_updates", "gauge", "Updates of the whole run.", static_cast<double>(planned_updates_)},
      {"bascule_phase_done", "gauge", "Updates, batches or pictures of the phase under way so far.",
       static_cast<double>(now_.done)},
      {"bascule_phase_total", "gauge", "Updates, batches or pictures of the whole phase.", static_cast<double>(total_)},
      {"bascule_epochs", "gauge", "Epochs of the training data so far.", epoch_},
      {"bascule_loss", "gauge", "Training loss of the last update.", loss_},
      {"bascule_gradient_norm", "gauge", "Gradient norm of the last logged update, before clipping.", gradient_norm_},
      {"bascule_learning_rate", "gauge", "Learning rate of the last logged update.", learning_rate_},
      {"bascule_samples_per_second", "gauge", "Training samples a second.", samples_per_second_},
      {"bascule_remaining_seconds", "gauge", "Estimated time until the phase under way ends.",
       seconds_left_ >= 0.0 ? seconds_left_ : std::nan("")},
      {"bascule_running", "gauge", "1 while the run goes on, 0 when it has finished, was stopped or has failed.",
       std::strcmp(state_, "running") == 0 ? 1.0 : 0.0},
      {"bascule_start_time_seconds", "gauge", "Unix time at which this process began to train or evaluate.",
       started_unix_},
      {"bascule_status_time_seconds", "gauge", "Unix time of these figures.", unix_seconds()}};
  std::size_t bytes = 0;
  for (const MetricLine& line : lines) {
    char value[32];
    std::snprintf(value, sizeof value, "%.17g", line.value);
    const int count =
        std::snprintf(text_ + bytes, sizeof text_ - bytes, "# HELP %s %s\n# TYPE %s %s\n%s %s\n", line.name, line.help,
                      line.name, line.type, line.name, std::isnan(line.value) ? "NaN" : value);
    if (count < 0 || bytes + static_cast<std::size_t>(count) >= sizeof text_) break;
    bytes += static_cast<std::size_t>(count);
  }
  return bytes;
}

// Not synced: the figures of a few seconds ago are of no use after a power cut.
void RunStatus::replace(const char* name, const char* temporary, std::size_t bytes) noexcept {
  const Descriptor file(::openat(folder_.number(), temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file.is_open() || !write_all(file.number(), text_, bytes).ok()) return;
  (void)::renameat(folder_.number(), temporary, folder_.number(), name);
}

}  // namespace bascule
