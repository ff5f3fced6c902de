// SPDX-License-Identifier: Apache-2.0
#include "src/seal/sealed_records.h"

#include <unistd.h>
#include <cstdint>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/base/span.h"
#include "src/base/systemd.h"
#include "src/files/durable_write.h"
#include "src/files/input_file.h"
#include "src/record/record_graphs.h"
#include "src/seal/sealed_weights.h"
#include "src/seal/sealed_writers.h"
#include "src/settings/command_line_keys.h"
#include "src/settings/resume_rules.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {
namespace {

// The quotes of a string are TOML's, not its own.
std::string shown_value(const std::string& value) {
  const bool is_plain = value.size() >= 2 && value.front() == '"' && value.back() == '"' &&
                        value.find_first_of("\\\"", 1) == value.size() - 1;
  return is_plain ? value.substr(1, value.size() - 2) : value;
}

// The settings file, or the program that has settings built in.
std::string source_of(const Settings& settings) {
  return sealed_settings() != nullptr ? program_file() : absolute_path(settings.origin.file);
}

MlflowPlace place_of(const Settings& settings) {
  const std::filesystem::path output = absolute_path(settings.run.output_dir.resolved);
  MlflowPlace place{tracking_store(settings), output.filename().string(), output.string(), {}, {}};
  for (const KeyRule& rule : resume_rules(settings)) {
    const bool is_idle =
        !settings.media_engine.simulation.is_given && rule.key.rfind("media_engine.simulation.", 0) == 0;
    if (!is_idle) place.parameters.push_back({rule.key, shown_value(rule.value)});
  }
  place.tags = {{"mlflow.source.name", source_of(settings)},
                {"mlflow.source.type", "LOCAL"},
                {kMlflowFolderTag, place.output_dir},
                {"bascule.version", BASCULE_VERSION}};
  return place;
}

template <typename Write>
auto with_advice(const Write& write) {
  try {
    return write();
  } catch (const Error& error) {
    throw Error(error.kind(), error.where(), error.problem(),
                (error.what_to_do().empty() ? "" : error.what_to_do() + ", or ") +
                    "set report.tracking_dir to a folder that the run may write to, or report.tracking = \"none\"");
  }
}

}  // namespace

std::string tracking_store(const Settings& settings) {
  const PathSetting& given = settings.report.tracking_dir;
  if (given.is_given()) return absolute_path(given.resolved);
  const std::filesystem::path output = absolute_path(settings.run.output_dir.resolved);
  return (output.parent_path() / "mlruns").string();
}

void check_tracking_store(const Settings& settings) {
  if (settings.report.tracking == Tracking::kNone) return;
  const std::string store = tracking_store(settings);
  with_advice([&] {
    make_folders(store);
    if (::access(store.c_str(), W_OK) != 0)
      throw Error(ErrorKind::kDisk, store, std::string("cannot be written: ") + std::strerror(errno));
  });
}

bool track_finished(const Settings& settings) {
  if (settings.report.tracking == Tracking::kNone) return false;
  return with_advice([&] { return MlflowRun::write_finished(place_of(settings)); });
}

MlflowRun open_tracking(const Settings& settings) {
  if (settings.report.tracking == Tracking::kNone) return {};
  return with_advice([&] { return MlflowRun::open(place_of(settings), unix_seconds()); });
}

namespace {

std::string host_name() {
  char name[256] = "host";
  if (gethostname(name, sizeof name - 1) != 0) return "host";
  return name;
}

// Records of versions with fewer metrics are the beginnings of ours.
template <typename Record>
void restore_log(RecordLog<Record>* log, const ResumePoint& point, const std::string& file,
                 const std::string& numbers) {
  const InputFile input(point.folder + "/" + file);
  const auto number = [&](const char* what) { return static_cast<std::uint64_t>(point.number(numbers + what)); };
  const std::uint64_t appended = number("_appended"), stride = number("_stride");
  const std::uint64_t size = static_cast<std::uint64_t>(input.size());
  const std::uint64_t kept = std::min(RecordLog<Record>::kept(appended, stride), size);
  const std::uint64_t bytes = kept == 0 ? 0 : size / kept;
  std::vector<Record> records(bytes <= sizeof(Record) ? kept : 0);
  for (std::size_t i = 0; i < records.size(); ++i) input.read(&records[i], static_cast<std::int64_t>(i * bytes), bytes);
  if (bytes * records.size() != size || !log->restore(Span<const Record>(records), appended, stride)) {
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
  const KnownRecords known = {outputs_.steps.records(), made, outputs_.averaged_evaluations.records(),
                              run.opened.judge_kind->metrics, outputs_.steps.stride() == 1};
  const LogRepair repair = cut_log_after(folder, position_.global_step, evaluated, known);
  // A run that begins from a checkpoint of another folder takes over its curves: nothing is damaged.
  const bool is_own = run.resume.point &&
                      std::filesystem::path(run.resume.point->folder).parent_path() == std::filesystem::path(folder);
  if (is_own && repair.written > 0)
    say("resume: log.jsonl: " + count_of(repair.written, "line") + " damaged or missing; written from the checkpoint");
  if (repair.removed > 0)
    say("resume: log.jsonl: removed " + count_of(repair.removed, "damaged line") +
        " that the checkpoint has no record of");
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

namespace {

// The outputs of the evaluation's tape, and, where texts are generated, those.
std::vector<JudgedOutput> outputs_of(const RecordedRun& run) {
  const auto& [number, recording] = run.graphs[Use::kEvaluate];
  std::vector<JudgedOutput> outputs = judged_outputs(recording, run.session.graph(number), &run.session.tape(number));
  if (!run.graphs.texts) return outputs;
  const GeneratedRows& rows = *run.graphs.texts->rows;
  outputs.push_back({"generated", rows.most_ids(), rows.ids()});
  outputs.push_back({"generated_counts", 1, rows.counts()});
  outputs.push_back({"generated_scores", 1, rows.scores()});
  return outputs;
}

std::unique_ptr<BatchRunner> runner_of(const Tape& tape, const std::optional<RecordedTexts>& texts,
                                       Generator* generator) {
  if (!texts) return std::make_unique<TapeRunner>(tape);
  return std::make_unique<GeneratingRunner>(tape, generator, *texts->rows);
}

}  // namespace

SealedEvaluation::SealedEvaluation(RecordedRun& run, const Arena& arena, Group& group) {
  Judge* const judge = run.graphs.judge.get();
  if (run.graphs.has(Use::kEvaluate)) {
    const std::size_t number = run.graphs[Use::kEvaluate].number;
    const std::int64_t batch = run.settings.training.per_device_eval_batch_size;
    std::optional<RecordedTexts>& texts = run.graphs.texts;
    if (texts) seal_texts(run, arena);
    std::byte* const own = judge->own_bytes() > 0 ? arena.at(run.plan[kEvaluationScratch]) : nullptr;
    judge->seal(arena.at(run.plan[kEvaluationMemory]), own, outputs_of(run), run.session.products());
    runner_ = runner_of(run.session.tape(number), texts, texts ? texts->generator.get() : nullptr);
    of_weights_.emplace(*judge, batch, *runner_, group);
    if (averages_of(run) != nullptr) {
      averaged_runner_ =
          runner_of(*run.session.averaged_tapes()[number], texts, texts ? texts->averaged.get() : nullptr);
      of_average_.emplace(*judge, batch, *averaged_runner_, group);
    }
  }
  if (group.is_first() && judge != nullptr && judge->names_tokens())
    token_texts_ = load_token_texts(run.settings.model.tokenizer_name.resolved);
}

void SealedEvaluation::seal_texts(RecordedRun& run, const Arena& arena) {
  RecordedTexts& texts = *run.graphs.texts;
  std::byte* memory = arena.at(run.plan[kGenerationMemory]);
  texts.generator->seal(memory, run.session.tapes());
  memory += align_up(texts.generator->bytes(), kCacheLine);
  if (texts.averaged) {
    texts.averaged->seal(memory, run.session.averaged_tapes());
    memory += align_up(texts.averaged->bytes(), kCacheLine);
  }
  texts.rows->seal(memory);
}

}  // namespace bascule
