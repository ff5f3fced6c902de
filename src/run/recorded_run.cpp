// SPDX-License-Identifier: Apache-2.0
#include "src/run/recorded_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/align.h"
#include "src/base/check.h"
#include "src/base/error.h"
#include "src/distributed/launch.h"
#include "src/evaluate/evaluate.h"
#include "src/graph/backward.h"
#include "src/graph/element_types.h"
#include "src/loader/caption_lengths.h"
#include "src/loader/loader_parts.h"
#include "src/loader/media.h"
#include "src/machine/process_limits.h"
#include "src/pictures/media_options.h"
#include "src/pictures/preprocessor.h"
#include "src/run/data_classes.h"
#include "src/run/parameter_groups.h"
#include "src/run/plan_control.h"
#include "src/run/resume_check.h"
#include "src/run/resume_files.h"
#include "src/run/run_memory.h"
#include "src/run/unread_settings.h"

namespace bascule {
namespace {

bool names_classes(const RecordedRun& run) { return run.opened.family->head(run.settings.model.head)->names_classes; }

// The samples of a text corpus. Only models that read texts and predict their tokens learn from one.
void open_corpus(RecordedRun* run, Split split, const PathsSetting& file, RecordedSplit* recorded) {
  const Settings& settings = run->settings;
  const LoaderSettings& loader = run->data.loader;
  if (reads_pictures(loader) || field_from(loader.fields, FieldSource::kMaskedRows) < 0) {
    throw Error(ErrorKind::kSettings, where_written(settings, std::string("data.") + split_name(split) + "_file"),
                file.text() + " is a text corpus, but this model with head \"" + settings.model.head + "\" " +
                    (reads_pictures(loader) ? "reads pictures" : "does not predict tokens"),
                "name a manifest");
  }
  const DataFiles files = find_data_files(file);
  OpenedTokens opened = open_tokens(files, *run->opened.tokenizer, settings.training.output_dir.resolved,
                                    run->data.new_tokens == NewTokens::kAreKept);
  if (!opened.note.empty()) run->notes.push_back("corpus: " + opened.note);
  CorpusRules rules{settings.data.text_layout, settings.data.max_seq_length};
  if (run->opened.inputs.reads_pairs) {
    rules.pairs = PairRules{loader.seed, 0, split == Split::kTrain ? settings.data.dupe_factor : 1,
                            settings.data.short_seq_probability};
  }
  recorded->corpus = std::make_unique<Corpus>(std::move(opened.store), files, *run->opened.tokenizer, rules);
  recorded->manifest = std::make_unique<Manifest>(recorded->corpus->manifest());
}

ManifestColumns columns_of(const RecordedRun& run) {
  const LoaderSettings& loader = run.data.loader;
  const DataSettings& data = run.settings.data;
  const ModelInputs& inputs = run.opened.inputs;
  ManifestColumns columns;
  columns.image = reads_pictures(loader) ? data.image_column : "";
  const std::string& text_column = data.text_column.empty() ? data.caption_column : data.text_column;
  columns.caption = reads_text(loader) ? text_column : "";
  if (!data.text_column.empty()) columns.caption_setting = "text_column";
  columns.second_caption = data.text_pair_column;
  columns.label = data.label_column;
  columns.named_classes = names_classes(run);
  columns.classes = columns.named_classes && inputs.class_names.empty() ? kMostClasses : inputs.classes;
  return columns;
}

// The classes of the training data become those of the model.
void take_classes(RecordedRun* run) {
  if (!names_classes(*run)) return;
  OpenedModel& opened = run->opened;
  const DataClasses found = classes_of_data(run->data, opened.inputs.class_names);
  if (!found.names.empty()) {
    opened.source.classes = found.names;
    opened.model = opened.family->open(opened.source, run->settings.model.head);
    opened.inputs = opened.model->inputs();
    opened.has_new_classes = true;
    run->notes.push_back("model: " + found.note);
  }
  number_classes(&run->data, opened.inputs.class_names, opened.inputs.classes);
}

// lent: the splits that another run has opened; null: they are opened here.
void add_split(RecordedRun* run, Split split, bool wanted, const PathsSetting& file, std::vector<RecordedSplit>* lent) {
  if (!wanted) return;
  const Settings& settings = run->settings;
  const DataSettings& data = settings.data;
  RecordedSplit recorded;
  recorded.split = split;
  const LoaderSettings& loader = run->data.loader;
  const auto missing =
      data.on_bad_sample == OnBadSample::kSkip ? MissingPictures::kAreSkipped : MissingPictures::kAreRefused;
  const auto open = [&] { return open_manifest(file, columns_of(*run), loader.cache, missing); };
  if (lent != nullptr) {
    const auto same = std::find_if(lent->begin(), lent->end(), [&](const auto& other) { return other.split == split; });
    recorded.manifest = std::move(same->manifest);
    recorded.corpus = std::move(same->corpus);
  } else if (file.is_corpus()) {
    open_corpus(run, split, file, &recorded);
  } else {
    OpenedManifest opened = open();
    // Results derived from the captions are cached, so the captions are checked first. This removes a damaged index.
    if (reads_text(loader) && !has_longest_caption(opened.manifest, text_settings(loader), loader.cache) &&
        !opened.manifest.own()) {
      run->notes.push_back("index: rebuilding the damaged index of " + file.text());
      opened = open();
    }
    if (!opened.note.empty()) run->notes.push_back("index: " + opened.note);
    if (field_from(loader.fields, FieldSource::kClassLabels) >= 0 && !opened.manifest.has_labels()) {
      throw Error(
          ErrorKind::kSettings, where_written(settings, "data.label_column"),
          "model.head = \"" + settings.model.head + "\" needs the class of each row, but data.label_column is not set",
          "name the column of classes, or a folder with a folder for each class");
    }
    recorded.manifest = std::make_unique<Manifest>(std::move(opened.manifest));
  }
  recorded.stream = run->data.loader.streams.size();
  StreamSettings stream;
  stream.manifest = recorded.manifest.get();
  stream.corpus = recorded.corpus.get();
  stream.shuffled = split == Split::kTrain;
  stream.drop_last = stream.shuffled && data.dataloader_drop_last;
  stream.batch_per_rank =
      stream.shuffled ? settings.training.per_device_train_batch_size : settings.training.per_device_eval_batch_size;
  stream.ring_slots = data.ring_slots;
  stream.world_size = run->place.world_size;
  stream.rank = run->place.rank;
  run->data.loader.streams.push_back(stream);
  run->data.splits.push_back(std::move(recorded));
}

void plan_data(RecordedRun* run, const media_engine_driver* engine, std::vector<RecordedSplit>* lent) {
  const Settings& settings = run->settings;
  LoaderSettings& loader = run->data.loader;
  loader.fields = run->opened.fields;
  loader.tokenizer = run->opened.tokenizer.get();
  loader.seed = static_cast<std::uint64_t>(settings.training.seed);
  loader.max_seq_length = settings.data.max_seq_length;
  loader.mlm_probability = settings.data.mlm_probability;
  loader.masking = settings.data.masking;
  loader.max_predictions = settings.data.max_predictions_per_seq;
  loader.negative_fraction = settings.data.negative_fraction;
  const int terms = run->opened.family->head(settings.model.head)->loss_terms;
  loader.counts_labels_ahead = terms > 1 && settings.training.gradient_accumulation_steps > 1;
  loader.positions = run->opened.inputs.positions;
  loader.vocabulary_size = run->opened.inputs.vocabulary_size;
  loader.max_positions = run->opened.inputs.max_positions;
  loader.preprocessing = settings.data.preprocessing;
  loader.image_side = run->opened.inputs.image_side;
  if (reads_pictures(loader)) {
    const std::string& folder = settings.model.model_name_or_path.resolved;
    if (run->opened.family->needs_processor_file) require_statistics(folder);
    const Family& family = *run->opened.family;
    const PictureRules rules = read_picture_rules(folder, loader.preprocessing, loader.image_side,
                                                  family.image_processor, family.processor_makes_squares);
    std::copy_n(rules.mean, 3, loader.mean);
    std::copy_n(rules.std, 3, loader.std);
    loader.processor = rules.processor;
  } else if (settings.data.augment != Augment::kNone) {
    throw Error(ErrorKind::kSettings, where_written(settings, "data.augment"),
                "data.augment is set, but the model reads no pictures", "remove it");
  }
  loader.random_crops = {settings.data.augment, settings.data.random_resized_crop_scale,
                         settings.data.random_resized_crop_ratio};
  loader.interpolation = settings.data.interpolation;
  loader.centre_crop_ratio = settings.data.eval_crop_ratio;
  loader.mixup_alpha = settings.data.mixup_alpha;
  loader.cutmix_alpha = settings.data.cutmix_alpha;
  loader.on_bad_sample = settings.data.on_bad_sample;
  if (!reads_pictures(loader)) loader.max_replacements = 0;  // only pictures can be bad
  loader.workers = settings.data.dataloader_num_workers;
  loader.queue_depth = settings.media_engine.queue_depth;
  loader.media_memory_bytes = static_cast<std::size_t>(settings.media_engine.memory_mib) << 20;
  loader.max_pixels = max_pixels(settings.media_engine.max_megapixels);
  loader.scale_in_decoder = settings.media_engine.scale_in_decoder;
  loader.cache = user_index_cache();
  loader.device_units = settings.media_engine.simulation.units;
  loader.engine = engine;
  if (engine == media_engine_builtin()) loader.device_options = media_options(settings, engine);
  loader.device_fallback = settings.media_engine.fallback;
  check_texts(loader);  // before a corpus is tokenised
  add_split(run, Split::kTrain, settings.training.do_train, settings.data.train_file, lent);
  add_split(run, Split::kValidation, settings.training.do_eval, settings.data.validation_file, lent);
  add_split(run, Split::kTest, settings.training.do_predict, settings.data.test_file, lent);
  take_classes(run);
  check_data(settings, run->data, &run->resume);
  run->data.plan = plan_loader(loader);
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
  length.updates_per_epoch = divide_up(length.batches_per_epoch, training.gradient_accumulation_steps);
  length.total_updates =
      training.max_steps > 0 ? training.max_steps : updates_of_epochs(length, training.num_train_epochs);
  length.epochs = static_cast<double>(length.total_updates) / static_cast<double>(length.updates_per_epoch);
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
  plan_control(run->settings, run->data, run->opened.judge_kind->metrics, &pace, &run->resume);
  pace.step_records = planned_records(length.total_updates, training.logging_steps, kMaxStepRecords);
}

void record_graphs(RecordedRun* run) {
  RecordOptions options;
  options.frozen = run->settings.model.freeze;
  options.label_smoothing = static_cast<float>(run->settings.training.label_smoothing_factor);
  if (const RecordedSplit* train = run->data.find(Split::kTrain)) {
    options.dropout = run->settings.model.dropout == Dropout::kConfig;
    options.mixed_labels = mixes_labels(run->settings);
    run->graphs.train = 0;
    run->session.set_groups(parameter_groups(run->settings), run->opened.model->body_prefix());
    BatchCounts train_bounds = run->data.plan.streams[train->stream].bounds;
    train_bounds[kSamplesOfAllRanks] = run->pace.length.gathered_samples;
    Graph& graph = run->session.add_graph(train_bounds, run->opened.fields);
    run->graphs.train_recording = run->opened.model->record(graph, options);
    BASCULE_CHECK(static_cast<int>(run->graphs.train_recording.losses.size()) ==
                  run->opened.family->head(run->settings.model.head)->loss_terms);
    check_parameter_groups(run->settings, run->session.parameters());
    derive_backward(graph);
    if (run->settings.model.precision == Precision::kBf16) choose_element_types(graph);
  }
  options.dropout = false;
  options.mixed_labels = false;
  if (!run->opened.family->head(run->settings.model.head)->smooths_evaluation) options.label_smoothing = 0.0f;
  BatchCounts bounds;
  JudgeShape shape;
  BatchCounts of_test;
  std::int64_t most_masked_of_test = 0;
  for (const RecordedSplit& split : run->data.splits) {
    if (split.split == Split::kTrain) continue;
    const BatchCounts& own = run->data.plan.streams[split.stream].bounds;
    for (int stream = 0; stream < kMaxStreams; ++stream) bounds[stream] = std::max(bounds[stream], own[stream]);
    shape.max_rows = std::max(shape.max_rows, split.manifest->rows());
    if (split.split != Split::kTest || !run->opened.judge_kind->predicts) continue;
    run->graphs.predicts = true;
    shape.predicted_rows = split.manifest->rows();
    of_test = own;
    most_masked_of_test = run->data.plan.streams[split.stream].most_masked;
  }
  if (bounds.samples() == 0) return;
  options.predictions = run->graphs.predicts;
  run->graphs.evaluation = run->graphs.train ? 1 : 0;
  Graph& graph = run->session.add_graph(bounds, run->opened.fields);
  run->graphs.evaluation_recording = run->opened.model->record(graph, options);
  if (run->settings.model.precision == Precision::kBf16) choose_element_types(graph);
  shape.batch = run->settings.training.per_device_eval_batch_size;
  for (const LossTerm& term : run->graphs.evaluation_recording.losses) shape.losses.push_back({term.name, term.stream});
  if (run->graphs.predicts) {
    const int counted = shape.losses.front().stream;
    shape.longest_text = run->data.loader.max_seq_length;
    shape.counted_of_a_row = std::max(of_test[counted] / of_test.samples(), most_masked_of_test);
  }
  shape.fields = run->opened.fields;
  shape.outputs = judged_outputs(run->graphs.evaluation_recording, graph, nullptr);
  run->graphs.judge = run->opened.judge_kind->make(shape);
  const TrainingSettings& training = run->settings.training;
  const std::int64_t every =
      std::max<std::int64_t>(1, training.eval_strategy == Interval::kSteps   ? training.eval_steps
                                : training.eval_strategy == Interval::kEpoch ? run->pace.length.updates_per_epoch
                                                                             : run->pace.length.total_updates);
  run->pace.evaluation_records =
      planned_records(std::max<std::int64_t>(2, run->pace.length.total_updates), every, kMaxEvaluationRecords) + 2;
}

// Plans everything that follows from the opened model. lent: as in add_split().
void plan_opened(RecordedRun* run, const media_engine_driver* engine, std::vector<RecordedSplit>* lent) {
  plan_data(run, engine, lent);
  const std::string unread = unread_settings(run->settings, run->opened, run->data.loader);
  if (!unread.empty()) run->notes.push_back(unread);
  plan_pace(run);
  record_graphs(run);
  plan_run_memory(run);
}

// Threads that have no core to themselves wait for each other.
void note_threads(RecordedRun* run) {
  const RankPlace& place = run->place;
  const ProcessLimits limits = read_process_limits();
  const int cores = place.run.empty() ? usable_cores() : usable_cores() * place.local_size;
  const int threads = run->threads * place.local_size;
  const std::string all = std::to_string(threads) + " compute threads";
  const char* const advice =
      run->settings.machine.threads > 0 ? ": slower than machine.threads = 0, which uses all available cores" : "";
  if (threads > cores) {
    run->notes.push_back("plan: " + all + " on " + std::to_string(cores) + (cores == 1 ? " core" : " cores") + advice);
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
  if (run->place.nodes > 1 && run->settings.report.hash_steps > 0) {
    throw Error(ErrorKind::kSettings, where_written(run->settings, "report.hash_steps"),
                "report.hash_steps needs all gradients on one machine, but \"sharded\" divides them between machines",
                "set it to 0, or distribution_strategy to \"fast_ddp\"");
  }
  if (run->place.nodes > 1) {
    run->notes.push_back(
        "plan: sharded: each machine holds the moments of its part of the weights and updates that part");
    return;
  }
  const char* const stages[] = {
      "stage 1 is the same as fast_ddp", "stage 2 sums gradients bucket by bucket, from a small ring in each rank",
      "stage 3 is the same as stage 2: it sums gradients bucket by bucket, from a small ring in each rank"};
  run->notes.push_back(
      std::string("plan: sharded: on one machine all strategies keep one copy of weights and moments; ") +
      stages[distributed.sharded_stage - 1]);
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

RankPlace planned_place(const Settings& settings) {
  RankPlace place;
  const DistributedSettings& distributed = settings.distributed;
  place.world_size = place.local_size = static_cast<int>(distributed.world_size);
  if (!distributed.hostfile.is_given()) return place;
  const std::string where = where_written(settings, "distributed.hostfile");
  place.nodes = machines_in(distributed.hostfile.resolved, where);
  if (place.world_size % place.nodes != 0) {
    throw Error(ErrorKind::kSettings, where_written(settings, "distributed.world_size"),
                "distributed.world_size = " + std::to_string(place.world_size) +
                    " ranks cannot be spread evenly over " + std::to_string(place.nodes) + " machines",
                "make it a multiple of the number of machines in " + distributed.hostfile.shown());
  }
  place.local_size = place.world_size / place.nodes;
  return place;
}

std::int64_t updates_of_epochs(const TrainingLength& length, double epochs) {
  return static_cast<std::int64_t>(std::ceil(epochs * static_cast<double>(length.updates_per_epoch)));
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
                                        NewTokens new_tokens) {
  auto run = std::make_unique<RecordedRun>(settings);
  run->resume.point = std::move(resume);
  run->data.new_tokens = new_tokens;
  if (run->resume.point) run->resume.changes = changes_since(*run->resume.point, settings);
  run->place = place;
  run->threads = compute_threads(settings, place);
  if (place.is_on_one_node() && settings.distributed.wire_type == WireType::kBf16)
    run->notes.push_back("plan: wire_type has no effect on one machine");
  if (settings.model.precision == Precision::kBf16 && !isa_supported(Isa::kAvx512Bf16)) {
    run->notes.push_back(
        "plan: this CPU has no bf16 instruction; bf16 products run as float32 multiply-adds here: the same bits, less "
        "memory, no faster");
  }
  note_threads(run.get());
  note_sharding(run.get());
  if (place.nodes > 1) {
    run->notes.push_back("plan: for one of " + std::to_string(place.nodes) + " machines with " +
                         std::to_string(place.local_size) + (place.local_size == 1 ? " rank" : " ranks") + " each");
  }
  run->opened = open_model_of(settings);
  if (std::string_view(run->opened.model->card().processor).empty())
    run->notes.push_back("model: Transformers cannot load the output folder");
  if (const ModelCode code = run->opened.model->code(); code.file != nullptr)
    run->notes.push_back(std::string("model: Transformers has no class for this model: ") + code.file +
                         " is saved with it; load it with " + code.auto_class +
                         ".from_pretrained(folder, trust_remote_code=True)");
  for (const std::string& note : run->opened.model->notes()) run->notes.push_back("model: " + note);
  check_model_files(settings, run->opened, &run->resume);
  plan_opened(run.get(), engine, nullptr);
  run->resume.history = history_of(run->resume);
  return run;
}

RunVariant::RunVariant(RecordedRun& lender, Settings settings)
    : lender_(lender), settings_(std::move(settings)), run_(settings_) {
  run_.place = lender.place;
  run_.threads = lender.threads;
  run_.opened = std::move(lender.opened);
  const media_engine_driver* const engine = lender.data.loader.engine;
  try {
    plan_opened(&run_, engine, &lender.data.splits);
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
int compute_threads(const Settings& settings, const RankPlace& place) {
  if (settings.machine.threads > 0) return static_cast<int>(settings.machine.threads);
  const int cores = place.run.empty() ? std::max(1, usable_cores() / place.local_size) : usable_cores();
  return threads_within(read_process_limits(), cores, place.local_size);
}

void own_indexes(const RunData& data) {
  for (const RecordedSplit& split : data.splits) {
    if (!split.manifest->own()) throw damaged_index(*split.manifest);
  }
}

}  // namespace bascule
