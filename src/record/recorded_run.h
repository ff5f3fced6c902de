// SPDX-License-Identifier: Apache-2.0
// The first two phases of a run. record: configuration, tokenizer and manifests are read, the model's graphs are
// composed. plan: every byte of the run gets its place. Nothing large is allocated: this is all that `bascule plan`
// does. Before the seal; throws Error.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/span.h"
#include "src/checkpoint/checkpoint.h"
#include "src/corpus/corpus.h"
#include "src/distributed/group.h"
#include "src/generate/generator.h"
#include "src/index/manifest.h"
#include "src/judge/judge.h"
#include "src/loader/distinct_batches.h"
#include "src/loader/loader.h"
#include "src/loader/sampler.h"
#include "src/logs/step_record.h"
#include "src/plan/choose_recompute.h"
#include "src/record/opened_model.h"
#include "src/record/training_position.h"
#include "src/session/batch_pieces.h"
#include "src/session/session.h"
#include "src/settings/resume_rules.h"
#include "src/settings/settings.h"
#include "src/text/tokenizer.h"
#include "src/update/schedule.h"

namespace bascule {

// One split of the data, with the loader's stream that reads it.
struct RecordedSplit {
  Split split = Split::kTrain;
  std::unique_ptr<const Corpus> corpus;  // null: the split has rows of its own
  std::unique_ptr<Manifest> manifest;
  std::size_t stream = 0;
};

// How many updates there are, and where an epoch's end falls.
struct TrainingLength {
  BatchCut cut;  // of an epoch into batches of all ranks
  // Of the first epoch, where epochs differ (`distinct`).
  std::int64_t batches_per_epoch = 0;
  std::int64_t updates_per_epoch =
      0;  // ceil(batches / accumulation): the last one of an epoch may have fewer micro-batches
  std::int64_t samples_per_epoch = 0;
  std::int64_t accumulation = 1;
  std::int64_t total_updates = 0;
  double epochs = 0.0;
  std::int64_t gathered_samples = 0;  // at most, of all ranks, in one loss; 0: each rank has a loss of its own samples
  const DistinctBatches* distinct = nullptr;  // RunData's; null: every epoch has as many batches
  std::vector<std::int64_t> updates_before;   // where `distinct`: before each epoch, then of all epochs

  // Where an update is: its epoch, its first micro-batch within the epoch, and how many it has.
  struct Place {
    std::int64_t epoch = 0, batch = 0, batches = 0;
  };
  Place place_of(std::int64_t step) const noexcept;
  // The number of an update's first micro-batch in the stream, which does not begin again with an epoch.
  std::int64_t batch_of(std::int64_t step) const noexcept;
  // The samples of the first `step` updates.
  std::int64_t samples_of(std::int64_t step) const noexcept;
  double epoch_of(std::int64_t step) const noexcept;
};

// The updates of so many epochs, rounded up. An epoch beyond the planned ones counts as the last planned one.
std::int64_t updates_of_epochs(const TrainingLength& length, double epochs);

// Weights of a run whose training was finished: they are evaluated again, and nothing is trained.
struct FinishedWeights {
  std::string folder;
  std::int64_t step = 0;  // the update that made them
};

// The warm-up of a schedule of this many updates.
std::int64_t warmup_steps_of(const TrainingSettings& training, std::int64_t schedule_steps);

// Where new tokens of a text corpus go; tokens that an earlier start has left in the run's folder are used again.
enum class NewTokens { kStayInMemory, kAreKept };

// How long sources and targets of large data are assumed to be, if their lengths are not cached: a run measures them by
// tokenising all, a plan takes the limits.
enum class NewLengths { kAreMeasured, kAreLimits };

// The labels of the training data say which classes a model has. A run reads them if it trains; a bench of its
// evaluation reads them although it trains nothing.
enum class TrainingLabels { kAreReadToTrain, kAreAlwaysRead };

// The samples of a run, and how they are loaded.
struct RunData {
  NewTokens new_tokens = NewTokens::kStayInMemory;
  std::vector<std::string> token_files;  // made by this start
  NewLengths new_lengths = NewLengths::kAreMeasured;
  TrainingLabels training_labels = TrainingLabels::kAreReadToTrain;
  RefusedRows* refused = nullptr;     // takes rows that a run refuses; null: the first one ends it
  std::vector<RecordedSplit> splits;  // those that this run uses: train, validation, test
  LoaderSettings loader;
  LoaderPlan plan;
  std::unique_ptr<DistinctBatches> distinct;  // of the training rows; null: batches may have a text twice
  std::size_t distinct_bytes = 0;             // memory of `distinct`; a RunVariant knows its own, without batches

  const RecordedSplit* find(Split split) const;
  // The split that is evaluated last, whose files the judge writes; null where nothing is.
  const RecordedSplit* last_judged() const;
};

// The writer of texts in evaluations.
struct RecordedTexts {
  SearchOptions options;
  RecordedGeneration graphs;
  std::unique_ptr<const TokenDecoder> decoder;
  std::unique_ptr<Generator> generator, averaged;  // the second: of the averaged weights; null: these generate nothing
  std::unique_ptr<GeneratedRows> rows;

  std::size_t bytes() const {
    return align_up(generator->bytes(), kCacheLine) + (averaged ? align_up(averaged->bytes(), kCacheLine) : 0) +
           rows->bytes();
  }
};

// The session's graphs by what they are for, and the judge of the evaluation.
struct RecordedGraphs {
  std::map<Use, RecordedGraph> by_use;
  std::unique_ptr<Judge> judge;        // null where nothing is evaluated
  bool predicts = false;               // the judge keeps predictions of the test file
  std::optional<RecordedTexts> texts;  // where evaluations generate texts

  bool has(Use use) const { return by_use.count(use) > 0; }
  bool trains() const { return has(Use::kTrain); }
  // Whether training batches go through the model in pieces: then by_use has the graphs of record_pieces().
  bool has_pieces() const { return has(Use::kTrainLoss); }
  // The graph of the training loss, whose samples are those of a batch.
  const RecordedGraph& of_loss() const { return by_use.at(has_pieces() ? Use::kTrainLoss : Use::kTrain); }
  const RecordedGraph& operator[](Use use) const { return by_use.at(use); }
};

// How long a run trains, at which learning rates, and when it evaluates, saves and stops.
struct Pace {
  TrainingLength length;
  Schedule schedule;
  std::vector<GroupRule> group_rules;  // of [[training.groups]], by ParameterPiece::group
  ControlSettings control;
  std::optional<EvaluationFigure> best_figure;  // says which evaluation is the best; none: nobody asked
  std::size_t step_records = 0, evaluation_records = 0;

  // A number of the figure and its direction; 0 where there is none. Bests of different figures do not compare.
  int best_figure_number() const;
};

// The checkpoint that a run resumes from, the changes since then, and their consequences.
struct ResumeState {
  std::optional<ResumePoint> point;    // none: the run starts from the beginning
  std::vector<SettingChange> changes;  // what differs from it, settings and content of files
  std::vector<HistoryEntry> history;   // what was changed since the run began, up to now
  std::vector<NamedText> model_files;  // digests of what is read from the model folder
  std::vector<std::string> notes;      // for people: consequences of the changes
  std::optional<FinishedWeights> finished;
  bool is_longer = false;      // than the checkpoint's
  bool is_over = false;        // the checkpoint is of the end: nothing is left to train, and the best is known
  bool searches_anew = false;  // the checkpoint's best does not count: the search begins with the weights of now
};

// A run of any kind, recorded and planned.
struct PlannedRun {
  explicit PlannedRun(const Settings& s, const RankPlace& p = {}, int t = 1) : settings(s), place(p), threads(t) {}
  // Fills in the plan, of the session's ranges and these. index_bytes: of the data, outside of the arena.
  void plan_memory(const std::vector<PlannedRange>& others, std::size_t index_bytes = 0);

  const Settings settings;
  RankPlace place;
  int threads = 1;
  Session session;
  MemoryPlan plan;
  std::vector<std::string> notes;  // for people, about the machine, the model and the data
};

struct RecordedRun : PlannedRun {
  using PlannedRun::PlannedRun;

  OpenedModel opened;
  RunData data;
  Pace pace;
  ResumeState resume;
  RecordedGraphs graphs;
  Recomputation recomputation;
};

// Names of the arena's categories beside those of the session.
inline constexpr char kLoaderMemory[] = "loader";
inline constexpr char kEvaluationMemory[] = "evaluation";
inline constexpr char kEvaluationScratch[] = "evaluation, of each rank";
inline constexpr char kGenerationMemory[] = "generation";  // beside the states that keep keys and values
inline constexpr char kGatheredMemory[] = "gathered embeddings";
inline constexpr char kPiecesMemory[] = "embeddings of a batch";  // with training.mini_batch_size
inline constexpr char kReplacedMemory[] = "replaced samples";     // where there are several ranks
inline constexpr char kLaneMemory[] = "sums between machines";    // where there are several
inline constexpr char kRecordMemory[] = "records";
// Logs of evaluations: of the weights, and of their average.
inline std::size_t evaluation_logs(const RecordedRun& run) { return run.settings.training.ema_decay > 0.0 ? 2 : 1; }
inline constexpr char kTensorHashes[] = "tensor hashes";      // with report.hash_steps
inline constexpr char kPictureDigests[] = "picture digests";  // where samples have pictures

// As the rank at `place` sees it; from a checkpoint, if one is given. Throws Error where the run cannot go on from it:
// resume_check.h. engine: the media engine that loads; one other than the program's own knows no
// [media_engine.simulation]. kAreKept: the folder is the caller's to write into.
std::unique_ptr<RecordedRun> record_run(const Settings& settings, const RankPlace& place,
                                        const media_engine_driver* engine = media_engine_builtin(),
                                        std::optional<ResumePoint> resume = std::nullopt,
                                        NewTokens new_tokens = NewTokens::kStayInMemory,
                                        NewLengths new_lengths = NewLengths::kAreMeasured,
                                        TrainingLabels training_labels = TrainingLabels::kAreReadToTrain);

// The same run with other batches, limits or recomputation, to look at its plan. `lender` lends what it has opened, and
// has it back when this goes.
class RunVariant {
 public:
  RunVariant(RecordedRun& lender, const Settings& settings);
  ~RunVariant() { give_back(); }
  RunVariant(const RunVariant&) = delete;
  RunVariant& operator=(const RunVariant&) = delete;
  const RecordedRun& run() const { return run_; }

 private:
  void give_back();

  RecordedRun& lender_;
  RecordedRun run_;
};

// The place of rank 0 before any rank is started: what a plan is made for. Throws kSettings where the ranks cannot be
// spread over the machines of distributed.hostfile.
RankPlace planned_place(const DistributedSettings& distributed, const SettingsOrigin& origin);

// machine.threads, or every core of the rank that control groups leave it the time of.
int compute_threads(const MachineSettings& machine, const RankPlace& place);

// At the seal: reads the indexes into memory, so that their files may change. Throws Error kData where a file is
// damaged; it has been removed then.
void own_indexes(const RunData& data);

}  // namespace bascule
