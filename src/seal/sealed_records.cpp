// SPDX-License-Identifier: Apache-2.0
#include "src/seal/sealed_records.h"

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <vector>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/count_of.h"
#include "src/base/error.h"
#include "src/base/notify_socket.h"
#include "src/base/shown_path.h"
#include "src/files/input_file.h"
#include "src/seal/saved_files.h"
#include "src/seal/tracking.h"

namespace bascule {
namespace {

std::string host_name() {
  char name[256] = "host";
  if (gethostname(name, sizeof name - 1) != 0) return "host";
  return name;
}

template <typename Record>
void restore_log(RecordLog<Record>* log, const ResumePoint& point, const std::string& file,
                 const std::string& numbers) {
  const InputFile input(point.folder + "/" + file);
  std::vector<Record> records(static_cast<std::size_t>(input.size()) / sizeof(Record));
  input.read(records.data(), 0, records.size() * sizeof(Record));
  const auto count = [&](const char* what) { return static_cast<std::uint64_t>(point.number(numbers + what)); };
  if (!log->restore(Span<const Record>(records), count("_appended"), count("_stride"))) {
    throw Error(ErrorKind::kData, point.folder + "/" + file, "does not match the records of this run",
                "remove the checkpoint");
  }
}

}  // namespace

std::string events_folder(const RunSettings& run) { return run.output_dir.resolved + "/runs/bascule"; }

SealedRecords::SealedRecords(const RecordedRun& run, const Arena& arena) {
  const Pace& pace = run.pace;
  std::byte* const memory = arena.at(run.plan[kRecordMemory]);
  if (pace.step_records > 0)
    outputs_.steps = RecordLog<StepRecord>({static_cast<StepRecord*>(static_cast<void*>(memory)), pace.step_records});
  if (pace.evaluation_records > 0) {
    auto* const room =
        static_cast<EvaluationRecord*>(static_cast<void*>(memory + pace.step_records * sizeof(StepRecord)));
    outputs_.evaluations = RecordLog<EvaluationRecord>({room, pace.evaluation_records});
    if (evaluation_logs(run) > 1)
      outputs_.averaged_evaluations =
          RecordLog<EvaluationRecord>({room + pace.evaluation_records, pace.evaluation_records});
  }
  if (run.resume.point) resume(run, *run.resume.point);
}

void SealedRecords::resume(const RecordedRun& run, const ResumePoint& point) {
  position_ = read_position(point);
  if (run.resume.searches_anew || !run.pace.best_figure) position_.best = BestSoFar{};
  restore_log(&outputs_.steps, point, kStepRecords, "step_records");
  if (run.pace.evaluation_records > 0) {
    restore_log(&outputs_.evaluations, point, kEvaluationRecords, "evaluation_records");
    if (evaluation_logs(run) > 1) resume_averaged(point);
  }
}

// One for each evaluation. Checkpoints of before have none: their points are left out of the curve.
void SealedRecords::resume_averaged(const ResumePoint& point) {
  RecordLog<EvaluationRecord>& log = outputs_.averaged_evaluations;
  if (std::filesystem::exists(point.folder + "/" + kAveragedRecords))
    return restore_log(&log, point, kAveragedRecords, "evaluation_records");
  const Span<const EvaluationRecord> made = outputs_.evaluations.records();
  std::vector<EvaluationRecord> unknown(made.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    unknown[i].global_step = made[i].global_step;
    unknown[i].loss = std::numeric_limits<double>::quiet_NaN();
  }
  BASCULE_CHECK(log.restore(Span<const EvaluationRecord>(unknown), outputs_.evaluations.appended(),
                            outputs_.evaluations.stride()));
}

void SealedRecords::open_files(const RecordedRun& run, const Group& group, void (*say)(const std::string& line)) {
  if (!group.is_first()) {
    outputs_.progress = Progress::silent();
    return;
  }
  open_logs(run, say);
  status_.open(run.settings.run.output_dir.resolved, run.settings.report.status_seconds,
               NotifySocket::from_environment());
  outputs_.progress.tell_also(&status_);
}

// Cuts off log entries of updates that are computed again.
void SealedRecords::open_logs(const RecordedRun& run, void (*say)(const std::string& line)) {
  const Settings& settings = run.settings;
  const Span<const EvaluationRecord> made = outputs_.evaluations.records();
  const std::int64_t evaluated = made.empty() ? -1 : made[made.size() - 1].global_step;
  const std::string& folder = settings.run.output_dir.resolved;
  const std::int64_t damaged = cut_log_after(
      folder, position_.global_step, evaluated,
      {outputs_.steps.records(), made, outputs_.averaged_evaluations.records(), run.opened.judge_kind->metrics});
  if (damaged > 0)
    say("resume: log.jsonl: " + count_of(damaged, "line") +
        " damaged; rewritten from the checkpoint; lines that it does not have were removed");
  outputs_.log = JsonLog::open(folder);
  outputs_.tracking = open_tracking(settings);
  if (!settings.report.tensorboard) return;
  const std::string events = events_folder(settings.run);
  if (run.graphs.trains()) {
    for (const std::string& file : cut_events_after(events, position_.global_step, evaluated))
      say("resume: " + shown_path(file) +
          ": damaged; records that cannot be read were removed from TensorBoard, and are in " + kLogFile);
  }
  outputs_.events = TensorBoardWriter::open(events, {static_cast<std::int64_t>(unix_seconds()), host_name(), getpid()});
  // Under the name that Hugging Face's trainer gives its arguments.
  outputs_.events.text("args", "```toml\n" + print_settings(settings) + "```", position_.global_step, unix_seconds());
}

}  // namespace bascule
