// SPDX-License-Identifier: Apache-2.0
// Records a run (length, schedule, notes for people), then plans its memory and recomputation. Before the seal.
#include "src/record/recorded_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/error.h"
#include "src/distributed/launch.h"
#include "src/loader/loader_parts.h"
#include "src/machine/process_limits.h"
#include "src/record/check_fits.h"
#include "src/record/plan_data.h"
#include "src/record/record_graphs.h"
#include "src/record/resume_check.h"
#include "src/record/run_inputs.h"
#include "src/runtime/choose_isa.h"
#include "src/session/shared_by_ranks.h"
#include "src/session/tensor_hashes.h"

namespace bascule {

namespace {

void take_distinct(const DistinctBatches& distinct, TrainingLength* length) {
  length->distinct = &distinct;
  length->batches_per_epoch = distinct.batches(0);
  length->samples_per_epoch = distinct.samples_before(1);
  length->updates_before = {0};
  for (std::int64_t epoch = 0; epoch < distinct.epochs(); ++epoch)
    length->updates_before.push_back(length->updates_before.back() +
                                     divide_up(distinct.batches(epoch), length->accumulation));
}

void plan_pace(RecordedRun* run) {
  const TrainingSettings& training = run->settings.training;
  const RecordedSplit* train = run->data.find(Split::kTrain);
  if (train == nullptr) return;
  Pace& pace = run->pace;
  TrainingLength& length = pace.length;
  const StreamSettings& stream = run->data.loader.streams[train->stream];
  const BatchCut cut = BatchOrder(batch_dealing(run->data.loader, stream)).cut();
  length.cut = cut;
  length.batches_per_epoch = cut.batches_per_epoch();
  length.samples_per_epoch = cut.samples_per_epoch();
  length.accumulation = training.gradient_accumulation_steps;
  if (run->data.distinct != nullptr) take_distinct(*run->data.distinct, &length);
  length.updates_per_epoch = divide_up(length.batches_per_epoch, length.accumulation);
  length.total_updates =
      training.max_steps > 0 ? training.max_steps : updates_of_epochs(length, training.num_train_epochs);
  length.epochs = length.epoch_of(length.total_updates);
  const std::int64_t steps = training.lr_schedule_steps > 0 ? training.lr_schedule_steps : length.total_updates;
  pace.schedule = {training.lr_scheduler_type,
                   training.learning_rate,
                   warmup_steps_of(training, steps),
                   steps,
                   training.lr_power,
                   training.lr_end,
                   training.lr_num_cycles,
                   training.lr_timescale,
                   training.min_lr_ratio,
                   training.warmup_start_ratio};
  pace.schedule.warmup_share = training.warmup_steps > 0
                                   ? static_cast<double>(training.warmup_steps) / static_cast<double>(steps)
                                   : training.warmup_ratio;
  for (const GroupSettings& group : training.groups)
    pace.group_rules.push_back({group.learning_rate_multiplier, group.weight_decay});
  if (training.gather_negatives && run->place.world_size > 1)
    length.gathered_samples = std::min(cut.global_batch(), cut.rows);
  if (run->resume.point) check_length(run->settings, pace, &run->resume);
  plan_control(run->settings.training, run->settings.run.output_dir.resolved, run->settings.origin, run->data,
               run->opened.judge_kind->metrics, run->opened.inputs.class_names.size(), &pace, &run->resume);
  pace.step_records = planned_records(length.total_updates, training.logging_steps, kMaxStepRecords);
}

// The session is planned.
void set_plan(PlannedRun* run, std::vector<PlannedRange> ranges, std::size_t index_bytes) {
  const std::size_t ranks = static_cast<std::size_t>(run->place.local_size);
  run->plan = make_memory_plan(std::move(ranges), kProcessBytes, index_bytes, ranks);
  run->plan.program_bytes = kProgramBytes;
  run->plan.workspace_lower_bound_bytes = run->session.workspace_lower_bound_bytes();
  run->plan.largest = run->session.largest(8);
}

TrainingOptions training_options(const Settings& settings, int nodes) {
  const DistributedSettings& distributed = settings.distributed;
  const bool is_sharded = distributed.distribution_strategy == Strategy::kSharded;
  TrainingOptions options;
  options.optimizer = &optimizer_kind(settings.training.optimizer);
  options.averages = settings.training.ema_decay > 0.0;
  options.activations_in_gradients =
      settings.training.gradient_accumulation_steps == 1 && settings.training.mini_batch_size == 0;
  if (is_sharded && distributed.sharded_stage > 1)
    options.bucket_bytes = static_cast<std::size_t>(distributed.bucket_mib) << 20;
  if (is_sharded) options.state_nodes = nodes;
  options.fuses_update = settings.training.fused_update;
  return options;
}

void plan_memory(RecordedRun* run) {
  const int local_ranks = run->place.local_size;
  run->session.set_products(run->settings.machine.products);
  if (run->graphs.trains()) run->session.train(training_options(run->settings, run->place.nodes));
  std::vector<PlannedRange> ranges = run->session.plan(run->threads, local_ranks);
  ranges.push_back({kLoaderMemory, run->data.plan.total_bytes()});
  if (run->graphs.judge) ranges.push_back({kEvaluationMemory, run->graphs.judge->bytes(), local_ranks > 1});
  if (run->graphs.judge && run->graphs.judge->own_bytes() > 0)
    ranges.push_back({kEvaluationScratch, run->graphs.judge->own_bytes()});
  if (run->graphs.texts) ranges.push_back({kGenerationMemory, run->graphs.texts->bytes()});
  if (!run->place.is_alone()) {
    ranges.push_back(
        {kReplacedMemory, ReplacedSamples::bytes(run->place.world_size, run->data.loader.max_replacements), true});
  }
  if (run->pace.length.gathered_samples > 0)
    ranges.push_back(
        {kGatheredMemory,
         GatheredRows::bytes(run->pace.length.gathered_samples, run->graphs.of_loss().recording.gathered_cols), true});
  if (run->graphs.has_pieces()) ranges.push_back({kPiecesMemory, pieces_bytes(run->session, run->graphs.by_use)});
  if (run->graphs.trains() && run->place.nodes > 1) {
    const bool is_bf16 = run->settings.distributed.wire_type == WireType::kBf16;
    ranges.push_back({kLaneMemory, NodeLane::memory_bytes(run->place.nodes, is_bf16)});
  }
  ranges.push_back(
      {kRecordMemory, run->pace.step_records * sizeof(StepRecord) +
                          evaluation_logs(*run) * run->pace.evaluation_records * sizeof(EvaluationRecord)});
  if (run->graphs.trains() && run->settings.report.hash_steps > 0) {
    ranges.push_back(
        {kTensorHashes, TensorHashes::bytes(run->session.parameters(), run->session.layout()), local_ranks > 1});
  }
  // And behind them a copy that a checkpoint is written from, while workers add to them.
  if (const std::size_t pictures = picture_digest_count(run->data.loader); pictures > 0)
    ranges.push_back({kPictureDigests, 2 * pictures * sizeof(PictureDigest), local_ranks > 1});
  std::size_t index_bytes = 0;
  for (const RecordedSplit& split : run->data.splits) {
    index_bytes += split.manifest->resident_bytes();
    if (split.split == Split::kTrain) index_bytes += run->data.distinct_bytes;
    if (split.corpus) index_bytes += split.corpus->own_bytes();
    // One mapping serves all ranks of the machine: each has its share of it.
    if (split.corpus) index_bytes += divide_up(split.corpus->mapped_bytes(), static_cast<std::size_t>(local_ranks));
  }
  set_plan(run, std::move(ranges), index_bytes);
}

// Fills in run->plan and run->recomputation, and adds a note where `full` or `fit` recompute. The graphs, the data and
// the pace are recorded. The bits of a run do not depend on what is chosen here. Whether a choice fits depends on the
// whole plan, so the plan is made before and after it.
void plan_run_memory(RecordedRun* run) {
  const GradientCheckpointing asked = run->settings.training.gradient_checkpointing;
  const bool trains = run->graphs.trains();
  if (trains && asked == GradientCheckpointing::kSelective)
    run->recomputation = recompute_everywhere(&run->session.graph(run->graphs[Use::kTrain].number), Recompute::kCheap);
  if (trains && asked == GradientCheckpointing::kFull)
    run->recomputation = recompute_everywhere(&run->session.graph(run->graphs[Use::kTrain].number), Recompute::kAll);
  plan_memory(run);
  const std::size_t limit = memory_of_plan(run->settings.machine, read_process_limits());
  if (trains && asked == GradientCheckpointing::kFit && run->plan.peak_bytes() > limit) {
    const std::size_t ranks = run->plan.ranks, workspaces = ranks * align_up(run->plan["workspace"].bytes, kPage);
    const std::size_t others = run->plan.peak_bytes() - workspaces;
    const std::size_t allowed = limit > others ? (limit - others) / ranks / kPage * kPage : 0;
    run->recomputation = recompute_to_fit(&run->session.graph(run->graphs[Use::kTrain].number),
                                          run->session.layout_with_room(), allowed);
    plan_memory(run);
  }
  if (run->graphs.has_pieces()) count_pieces(*run, &run->recomputation);
  if (run->recomputation.layers > 0 && asked != GradientCheckpointing::kSelective)
    run->notes.push_back("plan: " + run->recomputation.text());
}

// Plans everything that follows from the opened model. lender: as in plan_data().
void plan_opened(RecordedRun* run, const media_engine_driver* engine, RunData* lender) {
  plan_data(run, engine, lender);
  const std::string unread = unread_settings(run->settings, run->opened, run->data.loader);
  if (!unread.empty()) run->notes.push_back(unread);
  plan_pace(run);
  record_graphs(run);
  plan_run_memory(run);
}

// Threads that have no core to themselves wait for each other. Those that a command plans for are of another machine.
void note_threads(RecordedRun* run) {
  const RankPlace& place = run->place;
  if (where_written(run->settings, "machine.threads") == "--threads") return;
  const ProcessLimits limits = read_process_limits();
  const int cores = place.run.empty() ? usable_cores() : usable_cores() * place.local_size;
  const int threads = run->threads * place.local_size;
  const std::string all = std::to_string(threads) + " compute threads";
  const char* const advice =
      run->settings.machine.threads > 0 ? ": slower than machine.threads = 0, which uses all available cores" : "";
  if (threads > cores) {
    run->notes.push_back("plan: " + all + " on " + count_of(cores, "core") + advice);
  } else if (threads > limits.processors && threads > place.local_size) {
    char share[32];
    std::snprintf(share, sizeof share, "%.3g", limits.processors);
    run->notes.push_back("plan: " + all + ", but a control group limits CPU time to " + share + " cores" + advice);
  }
}

// Reports what a stage means on this machine.
void note_sharding(RecordedRun* run) {
  const DistributedSettings& distributed = run->settings.distributed;
  if (distributed.distribution_strategy != Strategy::kSharded || run->place.world_size == 1) return;
  if (distributed.sharded_stage > 1 && !run->place.is_on_one_node()) {
    throw Error(ErrorKind::kSettings, where_written(run->settings, "distributed.sharded_stage"),
                "sharded stages 2 and 3 work on one machine only", "set sharded_stage = 1");
  }
  const bool shares_states = run->place.nodes > 1 && optimizer_kind(run->settings.training.optimizer).is_shared_out;
  if (shares_states && run->settings.report.hash_steps > 0) {
    throw Error(ErrorKind::kSettings, where_written(run->settings, "report.hash_steps"),
                "report.hash_steps needs all gradients on one machine, but \"sharded\" divides them between machines",
                "set it to 0, or distribution_strategy to \"fast_ddp\"");
  }
  if (run->place.nodes > 1) {
    run->notes.push_back(
        shares_states ? "plan: sharded: each machine holds the moments of its part of the weights and updates that part"
                      : "plan: sharded: the states of Adafactor are small, each machine holds all of them");
    return;
  }
  const char* const stages[] = {
      "stage 1 is the same as fast_ddp", "stage 2 sums gradients bucket by bucket, from a small ring in each rank",
      "stage 3 is the same as stage 2: it sums gradients bucket by bucket, from a small ring in each rank"};
  run->notes.push_back(
      std::string("plan: sharded: on one machine all strategies keep one copy of weights and moments; ") +
      stages[distributed.sharded_stage - 1]);
}

// How other programs load the folder that the run leaves.
void note_saved_model(RecordedRun* run) {
  if (std::string_view(run->opened.model->card().processor).empty())
    run->notes.push_back("model: Transformers cannot load the output folder");
  if (const ModelCode code = run->opened.model->code(); code.file != nullptr)
    run->notes.push_back(std::string("model: Transformers has no class for this model: ") + code.file +
                         " is saved with it; load it with " + code.auto_class +
                         ".from_pretrained(folder, trust_remote_code=True)");
}

}  // namespace

const RecordedSplit* RunData::find(Split split) const {
  for (const RecordedSplit& recorded : splits) {
    if (recorded.split == split) return &recorded;
  }
  return nullptr;
}

const RecordedSplit* RunData::last_judged() const {
  const RecordedSplit* const test = find(Split::kTest);
  return test != nullptr ? test : find(Split::kValidation);
}

RankPlace planned_place(const DistributedSettings& distributed, const SettingsOrigin& origin) {
  RankPlace place;
  place.world_size = place.local_size = static_cast<int>(distributed.world_size);
  if (!distributed.hostfile.is_given()) return place;
  const std::string where = where_written(origin, "distributed.hostfile");
  place.nodes = machines_in(distributed.hostfile.resolved, where);
  if (place.world_size % place.nodes != 0) {
    throw Error(ErrorKind::kSettings, where_written(origin, "distributed.world_size"),
                "distributed.world_size = " + std::to_string(place.world_size) +
                    " ranks cannot be spread evenly over " + std::to_string(place.nodes) + " machines",
                "make it a multiple of the number of machines in " + distributed.hostfile.shown());
  }
  place.local_size = place.world_size / place.nodes;
  return place;
}

std::int64_t updates_of_epochs(const TrainingLength& length, double epochs) {
  const std::vector<std::int64_t>& before = length.updates_before;
  if (before.empty())
    return static_cast<std::int64_t>(std::ceil(epochs * static_cast<double>(length.updates_per_epoch)));
  const std::size_t last = before.size() - 2;
  const std::size_t whole = std::min(static_cast<std::size_t>(epochs), last);
  const double rest = epochs - static_cast<double>(whole),
               of_epoch = static_cast<double>(before[whole + 1] - before[whole]);
  return before[whole] + static_cast<std::int64_t>(std::ceil(rest * of_epoch));
}

TrainingLength::Place TrainingLength::place_of(std::int64_t step) const noexcept {
  if (updates_per_epoch == 0) return {};
  Place place;
  std::int64_t first = 0, of_epoch = batches_per_epoch;
  if (distinct == nullptr) {
    place.epoch = step / updates_per_epoch;
    first = place.epoch * updates_per_epoch;
  } else {
    // The end of the last epoch is a place behind it.
    const auto behind = std::upper_bound(updates_before.begin(), updates_before.end(), step);
    place.epoch = behind - updates_before.begin() - 1;
    first = updates_before[static_cast<std::size_t>(place.epoch)];
    of_epoch = place.epoch < distinct->epochs() ? distinct->batches(place.epoch) : 0;
  }
  place.batch = (step - first) * accumulation;
  place.batches = std::min(accumulation, of_epoch - place.batch);
  return place;
}

std::int64_t TrainingLength::batch_of(std::int64_t step) const noexcept {
  const Place place = place_of(step);
  return (distinct != nullptr ? distinct->batches_before(place.epoch) : place.epoch * batches_per_epoch) + place.batch;
}

// The last update of an epoch, which may be smaller, ends it.
std::int64_t TrainingLength::samples_of(std::int64_t step) const noexcept {
  const Place place = place_of(step);
  if (distinct == nullptr) return place.epoch * samples_per_epoch + place.batch * cut.global_batch();
  return distinct->samples_before(place.epoch) +
         (place.batch > 0 ? distinct->batch(place.epoch, place.batch).begin : 0);
}

double TrainingLength::epoch_of(std::int64_t step) const noexcept {
  if (updates_per_epoch == 0) return 0.0;
  if (distinct == nullptr) return static_cast<double>(step) / static_cast<double>(updates_per_epoch);
  const std::size_t epoch = static_cast<std::size_t>(place_of(step).epoch);
  if (epoch + 1 >= updates_before.size()) return static_cast<double>(epoch);
  return static_cast<double>(epoch) + static_cast<double>(step - updates_before[epoch]) /
                                          static_cast<double>(updates_before[epoch + 1] - updates_before[epoch]);
}

std::int64_t warmup_steps_of(const TrainingSettings& training, std::int64_t schedule_steps) {
  if (training.warmup_steps > 0) return training.warmup_steps;
  return static_cast<std::int64_t>(std::ceil(training.warmup_ratio * static_cast<double>(schedule_steps)));
}

int Pace::best_figure_number() const {
  return best_figure ? 1 + 2 * best_figure->number() + (control.greater_is_better ? 1 : 0) : 0;
}

std::unique_ptr<RecordedRun> record_run(const Settings& settings, const RankPlace& place,
                                        const media_engine_driver* engine, std::optional<ResumePoint> resume,
                                        NewTokens new_tokens, NewLengths new_lengths, TrainingLabels training_labels) {
  auto run = std::make_unique<RecordedRun>(settings, place, compute_threads(settings.machine, place));
  run->resume.point = std::move(resume);
  run->data.new_tokens = new_tokens;
  run->data.new_lengths = new_lengths;
  run->data.training_labels = training_labels;
  if (run->resume.point) run->resume.changes = changes_since(*run->resume.point, settings);
  if (place.is_on_one_node() && settings.distributed.wire_type == WireType::kBf16)
    run->notes.push_back("plan: wire_type has no effect on one machine");
  if (const std::string note = note_on_bf16(settings.machine, settings.model.precision); !note.empty())
    run->notes.push_back(note);
  note_threads(run.get());
  note_sharding(run.get());
  if (place.nodes > 1) {
    run->notes.push_back("plan: for one of " + std::to_string(place.nodes) + " machines with " +
                         count_of(place.local_size, "rank") + " each");
  }
  run->opened = open_model_of(settings.model, settings.data, settings.training, settings.origin);
  if (settings.training.do_train) note_saved_model(run.get());
  if (run->opened.sentence) run->notes.push_back("model: " + sentence_facts(*run->opened.sentence));
  for (const std::string& note : run->opened.model->notes()) run->notes.push_back("model: " + note);
  check_model_files(settings.model, settings.origin, run->opened, &run->resume);
  plan_opened(run.get(), engine, nullptr);
  run->resume.history = history_of(run->resume);
  return run;
}

RunVariant::RunVariant(RecordedRun& lender, const Settings& settings)
    : lender_(lender), run_(settings, lender.place, lender.threads) {
  run_.opened = std::move(lender.opened);
  const media_engine_driver* const engine = lender.data.loader.media.driver;
  try {
    plan_opened(&run_, engine, &lender.data);
  } catch (...) {
    give_back();
    throw;
  }
}

void RunVariant::give_back() {
  lender_.opened = std::move(run_.opened);
  for (RecordedSplit& split : lender_.data.splits) {
    for (RecordedSplit& own : run_.data.splits) {
      if (own.split != split.split || !own.manifest) continue;
      split.manifest = std::move(own.manifest);
      split.corpus = std::move(own.corpus);
    }
  }
}

// A rank that was started has its part of the cores already; one that is only planned would get it.
int compute_threads(const MachineSettings& machine, const RankPlace& place) {
  if (machine.threads > 0) return static_cast<int>(machine.threads);
  const int cores = place.run.empty() ? std::max(1, usable_cores() / place.local_size) : usable_cores();
  return threads_within(read_process_limits(), cores, place.local_size);
}

void own_indexes(const RunData& data) {
  for (const RecordedSplit& split : data.splits) {
    if (!split.manifest->read_into_memory()) throw damaged_index(*split.manifest);
  }
}

void PlannedRun::plan_memory(const std::vector<PlannedRange>& others, std::size_t index_bytes) {
  std::vector<PlannedRange> ranges = session.plan(threads, place.local_size);
  ranges.insert(ranges.end(), others.begin(), others.end());
  set_plan(this, std::move(ranges), index_bytes);
}

}  // namespace bascule
