// SPDX-License-Identifier: Apache-2.0
#include "src/sealed/sealed_run.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/shown_path.h"
#include "src/checkpoint/checkpoint_names.h"
#include "src/checkpoint/state_file.h"
#include "src/json/json.h"
#include "src/pictures/preprocessor.h"
#include "src/records/readable.h"
#include "src/run/plan_control.h"
#include "src/run/resume_check.h"
#include "src/run/resume_files.h"
#include "src/sealed/disk_demand.h"
#include "src/sealed/same_files.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {
namespace {

constexpr char kStepRecords[] = "step_records.bin";
constexpr char kEvaluationRecords[] = "evaluation_records.bin";
constexpr char kAveragedRecords[] = "averaged_evaluation_records.bin";
constexpr char kPictureDigestsFile[] = "picture_digests.bin";
constexpr std::int64_t kListedBytes = 160;                    // a line of the list of pictures: about
constexpr std::int64_t kReportBytes = std::int64_t{2} << 20;  // page with pictures, result files, events: about

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

// As a user knows it.
std::string name_of_point(const ResumePoint& point, const RunSettings& run) {
  if (point.folder == run.output_dir.resolved + "/" + kLastStateFolder)
    return "the end of training, update " + std::to_string(point.global_step);
  return point.folder == run.resume_checkpoint.resolved ? run.resume_checkpoint.written
                                                        : name_of_checkpoint(point.global_step);
}

bool decays_any(const TrainingSettings& training) {
  return training.weight_decay > 0.0 ||
         std::any_of(training.groups.begin(), training.groups.end(),
                     [](const GroupSettings& group) { return group.weight_decay > 0.0; });
}

}  // namespace

std::string events_folder(const Settings& settings) { return settings.run.output_dir.resolved + "/runs/bascule"; }

void SealedRun::meet(const char* what) {
  if (!group_.barrier()) throw Error(ErrorKind::kRank, what, "another rank failed");
}

SealedRun::SealedRun(RecordedRun& run, Isa isa, const volatile int* stop, void (*say)(const std::string& line),
                     Group& group, StartTimes* times)
    : run_(run), isa_(isa), group_(group) {
  const Settings& settings = run.settings;
  const std::optional<ResumePoint>& point = run.resume.point;
  RecordedGraphs& graphs = run.graphs;
  const Pace& pace = run.pace;
  check_same_files(run, group);
  own_indexes(run.data);
  if (run.plan.shared_bytes > 0) shared_ = group.share(run.plan.shared_bytes, settings.machine.huge_pages);
  arena_ = std::make_unique<Arena>(run.plan, settings.machine.huge_pages, shared_.data());
  // Before the compute threads: workers inherit this thread's cores, and it is pinned to one from then on.
  Span<PictureDigest> digests;
  if (const std::size_t pictures = picture_digest_count(run.data.loader); pictures > 0)
    digests = {arena_->as<PictureDigest>(run.plan[kPictureDigests]), pictures};
  loader_ = std::make_unique<Loader>(
      run.data.loader, run.data.plan,
      Span<std::byte>(arena_->at(run.plan[kLoaderMemory]), run.plan[kLoaderMemory].bytes), digests);
  loader_progress_ = std::make_unique<CountedProgress>(
      group, [](void* loader) { return static_cast<const Loader*>(loader)->loaded_samples(); },
      [](void* loader) { return static_cast<const Loader*>(loader)->row_being_read(); }, loader_.get());
  threads_ = std::make_unique<Threads>(run.threads, run.threads == usable_cores(), &group.heart(), &group.position());
  run.session.seal(*arena_, run.plan, kernels_for(isa), run.threads, &group);
  const DistributedSettings& distributed = settings.distributed;
  if (graphs.trains() && group.nodes() > 1) {
    const PlannedRange& lane = run.plan[kLaneMemory];
    run.session.training().update().connect(Span<std::byte>(arena_->at(lane), lane.bytes),
                                            distributed.wire_type == WireType::kBf16);
  }
  if (graphs.trains() && group.size() > 1 && distributed.distribution_strategy == Strategy::kDdp)
    run.session.training().overlap_reduction(static_cast<std::size_t>(distributed.bucket_mib) << 20);
  times->end("loader, threads and tapes");
  times->end("memory and weights", fill_memory(point, say));

  std::byte* records = arena_->at(run.plan[kRecordMemory]);
  if (pace.step_records > 0)
    out_.steps = RecordLog<StepRecord>({static_cast<StepRecord*>(static_cast<void*>(records)), pace.step_records});
  if (pace.evaluation_records > 0) {
    auto* const room =
        static_cast<EvaluationRecord*>(static_cast<void*>(records + pace.step_records * sizeof(StepRecord)));
    out_.evaluations = RecordLog<EvaluationRecord>({room, pace.evaluation_records});
    if (evaluation_logs(run) > 1)
      out_.averaged_evaluations =
          RecordLog<EvaluationRecord>({room + pace.evaluation_records, pace.evaluation_records});
  }
  if (point) resume_records(*point);
  if (graphs.has(Use::kEvaluate)) {
    const auto& [number, recording] = graphs[Use::kEvaluate];
    const std::int64_t batch = settings.training.per_device_eval_batch_size;
    graphs.judge->seal(arena_->at(run.plan[kEvaluationMemory]),
                       judged_outputs(recording, run.session.graph(number), &run.session.tape(number)),
                       run.session.products());
    runner_ = std::make_unique<TapeRunner>(run.session.tape(number));
    evaluation_ = std::make_unique<Evaluation>(*graphs.judge, batch, *runner_, group);
    if (averages() != nullptr) {
      averaged_runner_ = std::make_unique<TapeRunner>(run.session.averaged_tape(number));
      averaged_evaluation_ = std::make_unique<Evaluation>(*graphs.judge, batch, *averaged_runner_, group);
    }
  }
  if (graphs.trains() && run.session.training().optimizer_states().are_shared_out && group.is_leader())
    state_exchange_ = std::make_unique<StateExchange>(group, run.session.training().optimizer_states());
  if (group.is_first()) {
    if (graphs.judge && graphs.judge->names_tokens())
      token_texts_ = load_token_texts(settings.model.tokenizer_name.resolved);
    make_writers();
    check_disk();
  }
  if (graphs.trains() && settings.training.load_best_model_at_end && group.is_leader()) {
    const Span<float> trained(run.session.parameter_memory().trained,
                              static_cast<std::size_t>(run.session.layout().trained_elements));
    std::optional<HfFolderPlan> files;
    if (!group.is_first()) files.emplace(folder_contents(run.session.parameter_memory().trained));
    best_weights_ = std::make_unique<WeightsReader>(group.is_first() ? *final_model_ : *files, trained);
  }
  if (!group.is_first()) out_.progress = Progress::silent();
  if (group.is_first()) {
    open_logs();
    status_.open(settings.run.output_dir.resolved, settings.report.status_seconds, NotifySocket::from_environment());
    out_.progress.tell_also(&status_);
  }
  if (group.size() > 1) {
    replaced_ = std::make_unique<ReplacedSamples>(group, run.data.loader.max_replacements,
                                                  arena_->at(run.plan[kReplacedMemory]));
  }
  if (pace.length.gathered_samples > 0)
    gathered_ = std::make_unique<GatheredRows>(group, arena_->at(run.plan[kGatheredMemory]),
                                               graphs[Use::kTrain].recording.gathered_cols);
  if (graphs.trains() && settings.report.hash_steps > 0) {
    const PlannedRange& memory = run.plan[kTensorHashes];
    hashes_ = std::make_unique<TensorHashes>(run.session.parameter_memory(),
                                             Span<std::byte>(arena_->at(memory), memory.bytes));
    if (group.is_first() && !run.resume.finished) {
      const std::string kept = hashes_->open(settings.run.output_dir.resolved, position_.global_step,
                                             {run.place.world_size, settings.training.per_device_train_batch_size,
                                              settings.training.gradient_accumulation_steps});
      if (!kept.empty())
        say("report.hash_steps: the hashes so far have another version's format or are of other tensors; they are kept "
            "in " +
            shown_path(kept));
    }
  }
  const TrainingLoop::Parts parts{run.session,
                                  group,
                                  *loader_,
                                  *threads_,
                                  evaluation_.get(),
                                  gathered_.get(),
                                  stop,
                                  hashes_.get(),
                                  averaged_evaluation_.get()};
  Span<std::uint64_t> saved_pictures;
  if (graphs.trains() && !digests.empty())
    saved_pictures = {arena_->as<std::uint64_t>(run.plan[kPictureDigests]) + digests.size(),
                      loader_->picture_digests(run.data.find(Split::kTrain)->stream).size()};
  const TrainingLoop::Saving saving{replaced_.get(), writer_.get(), state_exchange_.get(), best_weights_.get(),
                                    saved_pictures};
  loop_ = std::make_unique<TrainingLoop>(run, parts, saving, &out_, position_);
  meet("loading weights");
  times->end("writers and logs");
  if (graphs.trains() && settings.training.optimizer == Optimizer::kLamb && !decays_any(settings.training) &&
      group.is_first())
    say("optimizer: with weight_decay = 0, LAMB is the same as Adam");
  if (point && group.is_first()) say("resume: from " + name_of_point(*point, settings.run));
}

// A run that ends by an error may end between an update's beginning and its sums.
SealedRun::~SealedRun() {
  if (run_.graphs.trains()) run_.session.training().update().rest();
}

float* SealedRun::averages() const { return run_.graphs.trains() ? run_.session.training().averages() : nullptr; }

void SealedRun::resume_records(const ResumePoint& point) {
  position_ = read_position(point);
  if (run_.resume.searches_anew || !run_.pace.best_figure) position_.best = BestSoFar{};
  restore_log(&out_.steps, point, kStepRecords, "step_records");
  if (run_.pace.evaluation_records > 0) {
    restore_log(&out_.evaluations, point, kEvaluationRecords, "evaluation_records");
    if (evaluation_logs(run_) > 1) resume_averaged_records(point);
  }
  if (group_.is_leader()) resume_picture_digests(point);
  if (!group_.is_first()) return;  // whose list goes on with those of all ranks
  const RecordedSplit* const train = run_.data.find(Split::kTrain);
  const auto is_row = [&](std::int64_t row) { return row >= 0 && row < train->manifest->rows(); };
  std::vector<ReplacedSample> replaced;
  for (const Replacement& r : point.replacements) {
    if (r.row < 0) continue;  // it ended the run
    if (!is_row(r.row) || !is_row(r.bad_row)) {
      throw Error(ErrorKind::kData, point.folder, "refers to a row that " + train->manifest->name() + " does not have",
                  "remove the checkpoint");
    }
    replaced.push_back({r.epoch, r.position, r.row, r.bad_row, r.reason});
  }
  loader_->stream(train->stream)
      .restore_replacements(Span<const ReplacedSample>(replaced),
                            static_cast<std::int64_t>(point.number("bad_samples")));
}

// One for each evaluation. Checkpoints of before have none: their points are left out of the curve.
void SealedRun::resume_averaged_records(const ResumePoint& point) {
  RecordLog<EvaluationRecord>& log = out_.averaged_evaluations;
  if (std::filesystem::exists(point.folder + "/" + kAveragedRecords))
    return restore_log(&log, point, kAveragedRecords, "evaluation_records");
  const Span<const EvaluationRecord> made = out_.evaluations.records();
  std::vector<EvaluationRecord> unknown(made.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    unknown[i].global_step = made[i].global_step;
    unknown[i].loss = std::numeric_limits<double>::quiet_NaN();
  }
  BASCULE_CHECK(
      log.restore(Span<const EvaluationRecord>(unknown), out_.evaluations.appended(), out_.evaluations.stride()));
}

// Reads the digests of the training pictures; older checkpoints have none. Where rows or sizes changed, none are
// read, and they are taken anew.
void SealedRun::resume_picture_digests(const ResumePoint& point) {
  const RecordedSplit* const train = run_.data.find(Split::kTrain);
  const Span<PictureDigest> digests = loader_->picture_digests(train->stream);
  const std::string path = point.folder + "/" + kPictureDigestsFile;
  const std::string now(DigestText(train->manifest->data_digest()).text());
  const bool is_same = std::any_of(point.data.begin(), point.data.end(), [&](const SettingValue& file) {
    return file.key == "data.train_file" && file.value == now;
  });
  if (!is_same || digests.empty() || !std::filesystem::exists(path)) return;
  const InputFile file(path);
  std::vector<std::uint64_t> saved(digests.size());
  if (file.size() != static_cast<std::int64_t>(saved.size() * sizeof saved[0])) return;
  file.read(saved.data(), 0, saved.size() * sizeof saved[0]);
  for (std::size_t i = 0; i < saved.size(); ++i) digests[i].store(saved[i], std::memory_order_relaxed);
}

// trained: the weights, or their average.
HfFolderContents SealedRun::folder_contents(const float* trained) const {
  const ModelSettings& model = run_.settings.model;
  const ParameterMemory memory = run_.session.parameter_memory();
  HfFolderContents contents;
  Json config = config_to_write(read_json_file(run_.opened.config_path), run_.opened.model->architecture());
  run_.opened.model->complete_config(&config);
  contents.config_json = json_text(config, 2) + "\n";
  if (run_.opened.tokenizer) contents.tokenizer_folder = model.tokenizer_name.resolved;
  if (const std::int64_t side = run_.opened.inputs.image_side; side > 0) {
    const std::string& folder = model.model_name_or_path.resolved;
    if (processor_file_of(folder).empty()) {
      contents.texts.push_back(
          {"preprocessor_config.json", default_processor_text(side, run_.opened.family->image_processor)});
    } else if (const std::string processor = run_.opened.family->image_processor;
               run_.opened.family->resizes_pictures && !makes_squares(folder, side, processor)) {
      contents.texts.push_back({"preprocessor_config.json", square_processor_text(folder, side, processor)});
    } else {
      contents.preprocessor_folder = folder;
    }
  }
  if (const ModelCode code = run_.opened.model->code(); code.file != nullptr)
    contents.texts.push_back({code.file, code.text});
  contents.tensors = tensors_to_write(*memory.set, *memory.layout, trained, memory.fixed, "");
  for (std::size_t i = 0; i < unused_.size(); ++i) {
    TensorToWrite tensor;
    tensor.name = unused_[i].name;
    tensor.shape = unused_[i].shape;
    if (unused_values_[i].empty()) {
      tensor.source = &source_;
      tensor.stored = find_tensor(source_, unused_[i].name, run_.opened.model->file_names());
    } else {
      tensor.data = unused_values_[i].data();
    }
    contents.tensors.push_back(std::move(tensor));
  }
  return contents;
}

std::vector<TensorToWrite> SealedRun::optimizer_to_write() {
  const ParameterMemory memory = run_.session.parameter_memory();
  std::vector<TensorToWrite> all =
      states_to_write(run_.session.training().optimizer_states(), memory, state_exchange_.get(), &parts_);
  if (const float* const averages = this->averages()) {
    for (TensorToWrite& tensor : tensors_to_write(*memory.set, *memory.layout, averages, nullptr, ema_name("")))
      all.push_back(std::move(tensor));
  }
  return all;
}

// Cuts off log entries of updates that are computed again.
void SealedRun::open_logs() {
  const Settings& settings = run_.settings;
  const Span<const EvaluationRecord> made = out_.evaluations.records();
  const std::int64_t evaluated = made.empty() ? -1 : made[made.size() - 1].global_step;
  const std::string& folder = settings.run.output_dir.resolved;
  cut_log_after(folder, position_.global_step, evaluated);
  out_.log = JsonLog::open(folder);
  if (!settings.report.tensorboard) return;
  if (run_.graphs.trains()) cut_events_after(events_folder(settings), position_.global_step, evaluated);
  out_.events = TensorBoardWriter::open(events_folder(settings),
                                        {static_cast<std::int64_t>(unix_seconds()), host_name(), getpid(), 0});
  // Under the name that Hugging Face's trainer gives its arguments.
  out_.events.text("args", "```toml\n" + print_settings(settings) + "```", position_.global_step, unix_seconds());
}

void SealedRun::make_writers() {
  if (!run_.graphs.trains()) return;
  const float* const trained = run_.session.parameter_memory().trained;
  final_model_ = std::make_unique<HfFolderPlan>(folder_contents(trained));
  if (const float* const averages = this->averages())
    averaged_model_ = std::make_unique<HfFolderPlan>(folder_contents(averages));
  const Settings& settings = run_.settings;
  CheckpointContents contents;
  contents.output_dir = settings.run.output_dir.resolved;
  contents.save_total_limit = settings.training.save_total_limit;
  contents.keeps_later = settings.run.resume == Resume::kOlder;
  contents.model = folder_contents(trained);
  contents.optimizer = optimizer_to_write();
  if (run_.resume.point) contents.resumed_from = run_.resume.point->resumed_from;
  contents.settings_digest = settings_digest(settings);
  contents.settings = number_values(settings);
  contents.other_settings = other_values(settings);
  contents.history = run_.resume.history;
  const auto is_weights = [](const SettingValue& file) { return file.key == kModelWeights; };
  if (!settings.model.from_scratch &&
      std::none_of(run_.resume.model_files.begin(), run_.resume.model_files.end(), is_weights)) {
    run_.resume.model_files.push_back({kModelWeights, weights_digest(source_)});
  }
  contents.data = data_digests(run_.data);
  const RecordedSplit& train = *run_.data.find(Split::kTrain);
  const Manifest& rows = *train.manifest;
  // The samples of a corpus are no rows that anybody mends: it is the same text or another.
  if (!train.corpus) contents.rows = {rows.rows(), row_blocks(rows), rows.taken_out(), {}};
  contents.max_bad_rows = static_cast<std::int64_t>(kMostBadRowsKept);
  contents.data.insert(contents.data.end(), run_.resume.model_files.begin(), run_.resume.model_files.end());
  contents.text_files = {kStepRecords, kEvaluationRecords, kPictureDigestsFile};
  if (averaged_evaluation_ != nullptr) contents.text_files.push_back(kAveragedRecords);
  writer_ = std::make_unique<CheckpointWriter>(std::move(contents));
}

// Before the first step: hours of training are not to end at a full disk that could be foreseen.
void SealedRun::check_disk() const {
  const std::string& folder = run_.settings.run.output_dir.resolved;
  DiskDemand demand;
  if (writer_) {
    const auto texts = static_cast<std::int64_t>(
        run_.plan[kRecordMemory].bytes + loader_->picture_digests(run_.data.find(Split::kTrain)->stream).size_bytes());
    demand = checkpoints_to_write(run_, writer_->checkpoint_bytes() + texts);
  }
  if (final_model_) {
    for (const PlannedFile& file : final_model_->files())
      demand.final_files.push_back({file.bytes, file_bytes_at(folder + "/" + file.name)});
  }
  if (averaged_model_) {
    for (const PlannedFile& file : averaged_model_->files())
      demand.final_files.push_back({file.bytes, file_bytes_at(folder + "/" + kAveragedFolder + "/" + file.name)});
  }
  if (const RecordedSplit* const last = run_.data.last_judged()) {
    demand.final_files.push_back(
        {run_.graphs.judge->file_bytes(static_cast<std::int64_t>(last->manifest->resident_bytes())),
         file_bytes_at(folder + "/" + run_.graphs.judge->file())});
  }
  demand.final_files.push_back({kReportBytes, 0});
  demand.final_files.push_back({static_cast<std::int64_t>(picture_digest_count(run_.data.loader)) * kListedBytes, 0});
  check_disk_space(folder, demand);
}

}  // namespace bascule
