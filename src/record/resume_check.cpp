// SPDX-License-Identifier: Apache-2.0
#include "src/record/resume_check.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <string>

#include "src/base/count_of.h"
#include "src/base/error.h"
#include "src/base/shown_path.h"
#include "src/logs/readable.h"
#include "src/record/training_position.h"

namespace bascule {
namespace {

constexpr char kMaxSteps[] = "training.max_steps";
constexpr char kEpochs[] = "training.num_train_epochs";
constexpr char kScheduleSteps[] = "training.lr_schedule_steps";

std::vector<SettingValue> values_of(const KeyValues& keys) {
  std::vector<SettingValue> values;
  for (const auto& [key, value] : keys) values.push_back({key, value});
  return values;
}

KeyValues pairs_of(const std::vector<SettingValue>& values) {
  KeyValues keys;
  for (const SettingValue& one : values) keys.emplace_back(one.key, one.value);
  return keys;
}

// A number in canonical text.
double number_of(const std::string& text) {
  double number = 0.0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

[[noreturn]] void refuse(const ResumePoint& point, const Settings& now, const std::string& key, const std::string& from,
                         const std::string& to, KeyEffect effect) {
  throw Error(ErrorKind::kSettings, where_written(now, key),
              key + " is " + to + ", but " + shown_path(point.folder) + " was trained with " + from + " (" +
                  resume_meaning(effect) + ")",
              "set " + key + " = " + from + ", or choose another output_dir");
}

// The length of a run and of its schedule in updates, as the settings of the checkpoint have it.
struct Lengths {
  std::int64_t total = 0;
  std::int64_t schedule = 0;
};

Lengths lengths_then(const ResumePoint& point, const TrainingLength& length) {
  const auto number = [&](const char* key) {
    for (const SettingValue& one : point.settings) {
      if (one.key == key) return number_of(one.value);
    }
    return 0.0;
  };
  Lengths lengths;
  const double steps = number(kMaxSteps), schedule = number(kScheduleSteps);
  lengths.total = steps > 0.0 ? static_cast<std::int64_t>(steps) : updates_of_epochs(length, number(kEpochs));
  lengths.schedule = schedule > 0.0 ? static_cast<std::int64_t>(schedule) : lengths.total;
  return lengths;
}

// Beside its warm-up.
bool depends_on_length(Scheduler kind) {
  return kind != Scheduler::kConstantWithWarmup && kind != Scheduler::kInverseSqrt;
}

// How the rates from here on differ from those of the checkpoint's run; "" where they do not.
std::string schedule_text(const TrainingSettings& training, const Schedule& schedule, const Lengths& then,
                          std::int64_t step) {
  if (schedule.kind == Scheduler::kConstant) return "";
  if (schedule.total_steps == then.schedule) {
    return "the schedule keeps its " + count_of(schedule.total_steps, "update") + "; afterwards the rate is " +
           readable_number(schedule.at(schedule.total_steps)).c_str();
  }
  std::string text;
  if (depends_on_length(schedule.kind)) {
    text = "the schedule is stretched from update " + std::to_string(then.schedule) + " to " +
           std::to_string(schedule.total_steps);
  }
  const std::int64_t warm_then = warmup_steps_of(training, then.schedule), warm = schedule.warmup_steps;
  if (warm == warm_then || warm <= step) return text;
  return text + (text.empty() ? "" : "; ") + "the warm-up takes " + count_of(warm, "update") + " instead of " +
         std::to_string(warm_then) + ", so the rate " + (step < warm_then ? "rises" : "rises again") +
         " until update " + std::to_string(warm);
}

}  // namespace

std::vector<SettingValue> number_values(const Settings& settings) { return values_of(number_keys(settings)); }
std::vector<SettingValue> other_values(const Settings& settings) { return values_of(other_keys(settings)); }

std::string value_then(const ResumePoint& point, const std::string& key) {
  for (const SettingValue& one : point.settings) {
    if (one.key == key) return one.value;
  }
  return "not set";
}

std::string value_now(const Settings& settings, const std::string& key) {
  for (const auto& [name, value] : number_keys(settings)) {
    if (name == key) return value;
  }
  return "not set";
}

std::vector<SettingChange> changes_since(const ResumePoint& point, const Settings& now) {
  return setting_changes(pairs_of(point.settings), pairs_of(point.other_settings), now);
}

void check_settings(const ResumePoint& point, const Settings& now, std::int64_t not_finite_at) {
  for (const SettingChange& change : changes_since(point, now)) {
    if (change.effect == KeyEffect::kNumbers) refuse(point, now, change.key, change.from, change.to, change.effect);
    if (change.effect != KeyEffect::kLower) continue;
    const bool is_lower = number_of(change.to) < number_of(change.from);
    if (is_lower && not_finite_at > point.global_step) continue;
    refuse(point, now, change.key, change.from, change.to, change.effect);
  }
}

void check_length(const Settings& settings, const Pace& pace, ResumeState* resume) {
  const ResumePoint& point = *resume->point;
  const Lengths then = lengths_then(point, pace.length);
  const std::int64_t total = pace.length.total_updates, schedule = pace.schedule.total_steps;
  // A run that was asked to end goes on with any other length beyond its end; with the planned one it stays ended.
  const std::int64_t ended = ended_at(point, settings.run.output_dir.resolved);
  const std::int64_t least = ended > 0 ? ended : then.total;
  if (total < least) {
    const char* const key = settings.training.max_steps > 0 ? kMaxSteps : kEpochs;
    const std::string other = value_then(point, kMaxSteps) != "0" ? kMaxSteps : kEpochs;
    refuse(point, settings, key,
           (other != key ? other + " = " : std::string()) + value_then(point, other) + " (" +
               count_of(then.total, "update") + ")",
           value_now(settings, key) + " (" + count_of(total, "update") + ")", KeyEffect::kLonger);
  }
  if (schedule < then.schedule) {
    refuse(point, settings, kScheduleSteps,
           value_then(point, kScheduleSteps) + " (" + count_of(then.schedule, "update") + ")",
           value_now(settings, kScheduleSteps) + " (" + count_of(schedule, "update") + ")", KeyEffect::kLonger);
  }
  resume->is_longer = total > least && total != then.total;
  if (total == then.total && schedule == then.schedule) return;
  const std::string of_schedule = schedule_text(settings.training, pace.schedule, then, point.global_step);
  if (resume->is_longer) {
    resume->notes.push_back("resume: " + count_of(total, "update") + " instead of " + std::to_string(least) +
                            (of_schedule.empty() ? "" : ": " + of_schedule));
  } else if (!of_schedule.empty()) {
    resume->notes.push_back("resume: " + of_schedule);
  }
}

std::int64_t ended_at(const ResumePoint& point, const std::string& output_dir) {
  const bool is_own = std::filesystem::path(point.folder).parent_path() == output_dir;
  return is_own ? read_position(point).ended_at : 0;
}

std::vector<HistoryEntry> history_of(const ResumeState& resume) {
  if (!resume.point) return {};
  std::vector<HistoryEntry> history = resume.point->history;
  const std::string time = utc_now("%Y-%m-%dT%H:%M:%SZ").c_str();
  for (const SettingChange& change : resume.changes)
    history.push_back({resume.point->global_step, change.key, change.from, change.to, time});
  return history;
}

}  // namespace bascule
