// SPDX-License-Identifier: Apache-2.0
#include "src/settings/keys.h"

#include <iterator>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

namespace bascule {
namespace {

// settings.*First.*Rest....
template <auto First, auto... Rest, typename S>
constexpr auto& follow(S& start) {
  auto& next = start.*First;
  if constexpr (sizeof...(Rest) == 0) {
    return next;
  } else {
    return follow<Rest...>(next);
  }
}

template <typename T, auto... Path>
constexpr Access<T> access() {
  return {[](const Settings& s) -> const T& { return follow<Path...>(s); },
          [](Settings& s) -> T& { return follow<Path...>(s); }};
}

template <auto... Path>
constexpr KeyKind boolean() {
  return BoolKey{access<bool, Path...>()};
}
template <auto... Path>
constexpr KeyKind integer(std::int64_t min, std::int64_t max) {
  return IntegerKey{access<std::int64_t, Path...>(), min, max};
}
// Both bounds allowed.
template <auto... Path>
constexpr KeyKind real(double min, double max) {
  return RealKey{access<double, Path...>(), min, max, true, true};
}
template <auto... Path>
constexpr KeyKind real_above(double min, double max) {
  return RealKey{access<double, Path...>(), min, max, false, true};
}
template <auto... Path>
constexpr KeyKind real_below(double min, double max) {
  return RealKey{access<double, Path...>(), min, max, true, false};
}
template <auto... Path>
constexpr KeyKind text(bool may_be_empty) {
  return TextKey{access<std::string, Path...>(), may_be_empty};
}
// A member of the last group.
template <typename T, auto Field>
constexpr Access<T> of_group() {
  return {[](const Settings& s) -> const T& { return s.training.groups.back().*Field; },
          [](Settings& s) -> T& { return s.training.groups.back().*Field; }};
}

template <auto... Path>
constexpr KeyKind path() {
  return PathKey{access<PathSetting, Path...>()};
}
template <auto... Path>
constexpr KeyKind paths() {
  return PathsKey{access<PathsSetting, Path...>()};
}
template <auto Table, auto Field, int N>
constexpr ChoiceKey words(const char* const (&names)[N]) {
  using E = std::remove_reference_t<decltype(follow<Table, Field>(std::declval<Settings&>()))>;
  return ChoiceKey{names, N, [](const Settings& s) { return static_cast<int>(follow<Table, Field>(s)); },
                   [](Settings& s, int value) { follow<Table, Field>(s) = static_cast<E>(value); }};
}

template <auto Table, auto Field, int N>
constexpr KeyKind choice(const char* const (&names)[N]) {
  return words<Table, Field>(names);
}
template <auto Table, auto Word, auto Path, int N>
constexpr KeyKind choice_or_path(const char* const (&names)[N]) {
  return ChoiceOrPathKey{words<Table, Word>(names), access<PathSetting, Table, Path>()};
}

// In the order of the enumerators.
constexpr const char* kHeads[] = {"contrastive", "image_text_matching", "masked_lm"};
constexpr const char* kNumberTypes[] = {"float32", "bf16"};  // Precision and WireType
constexpr const char* kDropouts[] = {"config", "off"};
constexpr const char* kPreprocessings[] = {"training", "processor"};
constexpr const char* kOnBadSample[] = {"stop", "skip"};
constexpr const char* kSchedulers[] = {"linear",       "cosine",
                                       "constant",     "constant_with_warmup",
                                       "polynomial",   "cosine_with_restarts",
                                       "inverse_sqrt", "cosine_with_min_lr"};
constexpr const char* kIntervals[] = {"no", "steps", "epoch"};
constexpr const char* kCheckpointings[] = {"off", "full", "fit"};
constexpr const char* kResumes[] = {"auto", "never", "older"};
constexpr const char* kStrategies[] = {"fast_ddp", "ddp", "sharded"};
constexpr const char* kIsas[] = {"auto", "avx2", "avx512"};

constexpr FreezeFlag kFreezeFlags[] = {{"vision_model", &FreezeSettings::vision_model},
                                       {"text_model", &FreezeSettings::text_model},
                                       {"text_pooler", &FreezeSettings::text_pooler}};

constexpr KeyEffect kNumbers = KeyEffect::kNumbers;
constexpr KeyEffect kFree = KeyEffect::kFree;
constexpr KeyEffect kWhileTraining = KeyEffect::kWhileTraining;
constexpr KeyEffect kFromThereOn = KeyEffect::kFromThereOn;
constexpr KeyEffect kSameFiles = KeyEffect::kSameFiles;
constexpr KeyEffect kSameRows = KeyEffect::kSameRows;
constexpr KeyEffect kLonger = KeyEffect::kLonger;
constexpr KeyEffect kLower = KeyEffect::kLower;
constexpr KeyEffect kSameProduct = KeyEffect::kSameProduct;

// A bound for counts where only the machine sets a limit.
constexpr std::int64_t kMany = 1'000'000'000;
// What the update computes with is float32: less would be zero there.
constexpr double kLeastFloat = 1.2e-38;
constexpr std::int64_t kMaxSeed = std::numeric_limits<std::int64_t>::max();

using M = ModelSettings;
using D = DataSettings;
using E = MediaEngineSettings;
using Sim = SimulationSettings;
using T = TrainingSettings;
using G = GroupSettings;
using P = DistributedSettings;
using H = MachineSettings;
using R = ReportSettings;
constexpr auto kModel = &Settings::model;
constexpr auto kData = &Settings::data;
constexpr auto kEngine = &Settings::media_engine;
constexpr auto kSim = &MediaEngineSettings::simulation;
constexpr auto kTrain = &Settings::training;
constexpr auto kDist = &Settings::distributed;
constexpr auto kMachine = &Settings::machine;
constexpr auto kReport = &Settings::report;

constexpr Key kKeys[] = {
    // [model]
    {"model", "model_name_or_path", path<kModel, &M::model_name_or_path>(), kSameFiles,
     "a Hugging Face folder: `config.json`, weights, tokenizer, preprocessor", "required"},
    {"model", "tokenizer_name", path<kModel, &M::tokenizer_name>(), kSameFiles,
     "another folder, if the tokenizer is elsewhere"},
    {"model", "head", choice<kModel, &M::head>(kHeads), kNumbers, "what the model is trained for"},
    {"model", "from_scratch", boolean<kModel, &M::from_scratch>(), kNumbers,
     "fresh weights from `config.json` and the seed; the folder then needs no weights"},
    {"model", "freeze", FreezeKey{access<FreezeSettings, kModel, &M::freeze>()}, kNumbers,
     "parts that keep their weights"},
    {"model", "precision", choice<kModel, &M::precision>(kNumberTypes), kNumbers,
     "type of the matrix products; parameters and moments are always float32"},
    {"model", "dropout", choice<kModel, &M::dropout>(kDropouts), kNumbers,
     "`config`: the rates of `config.json`; `off`: none"},
    // [data]
    {"data", "train_file", paths<kData, &D::train_file>(), kSameRows,
     "`.jsonl`, `.json`, `.csv`, `.tsv`, a folder with `metadata.jsonl`, or shards `shard-{000..127}.tar`; "
     "several as a list or a glob, `part-*.jsonl`"},
    {"data", "validation_file", paths<kData, &D::validation_file>(), kFromThereOn, "the same forms; for evaluation"},
    {"data", "test_file", paths<kData, &D::test_file>(), kFromThereOn, "the same forms; for prediction"},
    {"data", "image_column", text<kData, &D::image_column>(false), kNumbers,
     "column with the picture's file; in shards the ending of pictures, `jpg`, `jpeg` and `png` if it is not given"},
    {"data", "caption_column", text<kData, &D::caption_column>(false), kNumbers,
     "column with the caption; in shards an ending, or a key of `.json`; else `.txt`"},
    {"data", "label_column", text<kData, &D::label_column>(true), kNumbers,
     "column with 0 or 1 for `image_text_matching` (in shards an ending, a key of `.json`, else `.cls`); empty: "
     "captions are "
     "exchanged instead"},
    {"data", "max_seq_length", integer<kData, &D::max_seq_length>(2, 65536), kNumbers,
     "longest caption, in tokens with both ends; the rest is cut"},
    {"data", "mlm_probability", real_above<kData, &D::mlm_probability>(0.0, 1.0), kNumbers,
     "share of the tokens to be predicted, for `masked_lm`"},
    {"data", "negative_fraction", real<kData, &D::negative_fraction>(0.0, 1.0), kNumbers,
     "share of samples that get another picture's caption, for `image_text_matching` without labels"},
    {"data", "preprocessing", choice<kData, &D::preprocessing>(kPreprocessings), kNumbers,
     "`training`: as the published training script; `processor`: the bytes of Transformers' image processor"},
    {"data", "dataloader_num_workers", integer<kData, &D::dataloader_num_workers>(0, 1024), kFree,
     "loader threads; 0: the training thread loads"},
    {"data", "dataloader_drop_last", boolean<kData, &D::dataloader_drop_last>(), kNumbers,
     "leave out the last, smaller batch of an epoch"},
    {"data", "ring_slots", integer<kData, &D::ring_slots>(2, 1024), kFree,
     "batches in memory at once; one is filled while another is read"},
    {"data", "on_bad_sample", choice<kData, &D::on_bad_sample>(kOnBadSample), kFromThereOn,
     "`stop`: name the row and stop; `skip`: list and count it; training takes the next good one, evaluation leaves it "
     "out"},
    // [media_engine]
    {"media_engine", "queue_depth", integer<kEngine, &E::queue_depth>(1, 4096), kFree, "pictures in work at once"},
    {"media_engine", "memory_mib", integer<kEngine, &E::memory_mib>(1, 1 << 20), kWhileTraining,
     "memory that the engine takes when it is opened, MiB"},
    {"media_engine", "max_megapixels", integer<kEngine, &E::max_megapixels>(1, 178), kNumbers,
     "larger pictures are refused, megapixels"},
    {"media_engine", "scale_in_decoder", boolean<kEngine, &E::scale_in_decoder>(), kNumbers,
     "let the JPEG decoder scale pictures more than twice too large; faster, other pixels"},
    {"media_engine", "fallback", boolean<kEngine, &E::fallback>(), kFree,
     "go on with the host engine when the device is gone for good"},
    {kSimulationTable, "units", integer<kEngine, kSim, &Sim::units>(1, 64), kFree, "decode units of the device"},
    {kSimulationTable, "pictures_per_second", real<kEngine, kSim, &Sim::pictures_per_second>(0.0, 1e9), kFree,
     "rate of one unit; 0: as fast as the host computes"},
    {kSimulationTable, "latency_ms", real<kEngine, kSim, &Sim::latency_ms>(0.0, 1e6), kFree,
     "time from doorbell to start, milliseconds"},
    {kSimulationTable, "polling", boolean<kEngine, kSim, &Sim::polling>(), kFree, "the driver polls; no interrupts"},
    {kSimulationTable, "timeout_ms", integer<kEngine, kSim, &Sim::timeout_ms>(1, 1000000), kFree,
     "when the driver suspects that a picture is lost, milliseconds beyond what the device says one takes"},
    {kSimulationTable, "faults", WordsKey{access<std::vector<std::string>, kEngine, kSim, &Sim::faults>()}, kFree,
     "faults to inject, each `name:probability` of a picture or `name@n`, at the n-th picture; see "
     "`firmware_shims/README.md`"},
    {kSimulationTable, "fault_seed", integer<kEngine, kSim, &Sim::fault_seed>(0, kMaxSeed), kFree, "of the faults"},
    // [training]
    {"training", "output_dir", path<kTrain, &T::output_dir>(), kFree, "folder of checkpoints and results", "required"},
    {"training", "do_train", boolean<kTrain, &T::do_train>(), kNumbers, "train", "true if `train_file` is given"},
    {"training", "do_eval", boolean<kTrain, &T::do_eval>(), kFree, "evaluate", "true if `validation_file` is given"},
    {"training", "do_predict", boolean<kTrain, &T::do_predict>(), kFree,
     "write results of the test file, and `embeddings.safetensors` or `predictions.jsonl`",
     "true if `test_file` is given"},
    {"training", "seed", integer<kTrain, &T::seed>(0, kMaxSeed), kNumbers,
     "of initial weights, order, dropout, masks and negatives"},
    {"training", "num_train_epochs", real<kTrain, &T::num_train_epochs>(0.0, 1e9), kLonger,
     "times through the data; 0: `max_steps` decides", "5.0, or 0.0 if `max_steps` is given"},
    {"training", "max_steps", integer<kTrain, &T::max_steps>(0, kMany), kLonger,
     "updates in all; 0: `num_train_epochs` decides"},
    {"training", "per_device_train_batch_size", integer<kTrain, &T::per_device_train_batch_size>(1, 1 << 20), kNumbers,
     "samples of one rank and one backward pass"},
    {"training", "per_device_eval_batch_size", integer<kTrain, &T::per_device_eval_batch_size>(1, 1 << 20),
     kFromThereOn, "samples of one evaluation batch; the contrastive evaluation loss depends on it"},
    {"training", "learning_rate", real<kTrain, &T::learning_rate>(0.0, 1e3), kLower, "highest rate of the schedule"},
    {"training", "weight_decay", real<kTrain, &T::weight_decay>(0.0, 1e3), kNumbers,
     "decoupled, of matrices and tables; not of biases and norms"},
    {"training", "adam_beta1", real_below<kTrain, &T::adam_beta1>(0.0, 1.0), kNumbers, "decay of the first moment"},
    {"training", "adam_beta2", real_below<kTrain, &T::adam_beta2>(0.0, 1.0), kNumbers, "decay of the second moment"},
    {"training", "adam_epsilon", real<kTrain, &T::adam_epsilon>(kLeastFloat, 1.0), kNumbers,
     "added to the root of the second moment"},
    {"training", "max_grad_norm", real<kTrain, &T::max_grad_norm>(0.0, 1e30), kNumbers,
     "gradients are scaled down to this global norm; 0: never"},
    {"training", "label_smoothing_factor", real_below<kTrain, &T::label_smoothing_factor>(0.0, 1.0), kNumbers,
     "share of each label that is spread evenly over all classes, of `image_text_matching` and `masked_lm`; in the "
     "loss "
     "of training and, as with Trainer, in that of evaluations"},
    {"training", "lr_scheduler_type", choice<kTrain, &T::lr_scheduler_type>(kSchedulers), kNumbers,
     "course of the learning rate"},
    {"training", "lr_schedule_steps", integer<kTrain, &T::lr_schedule_steps>(0, kMany), kLonger,
     "updates over which the schedule runs; after them the rate stays at the schedule's end; 0: all of the run"},
    {"training", "warmup_steps", integer<kTrain, &T::warmup_steps>(0, kMany), kNumbers,
     "updates over which the rate rises from 0"},
    {"training", "warmup_ratio", real<kTrain, &T::warmup_ratio>(0.0, 1.0), kNumbers,
     "the same as a share of the schedule's updates, rounded up"},
    {"training", "lr_power", real_above<kTrain, &T::lr_power>(0.0, 100.0), kNumbers,
     "exponent of the `polynomial` schedule"},
    {"training", "lr_end", real<kTrain, &T::lr_end>(0.0, 1e3), kNumbers,
     "rate at the end of the `polynomial` schedule, below `learning_rate`"},
    {"training", "lr_num_cycles", integer<kTrain, &T::lr_num_cycles>(1, kMany), kNumbers,
     "half cosines of `cosine_with_restarts`, each from the highest rate to 0"},
    {"training", "lr_timescale", integer<kTrain, &T::lr_timescale>(0, kMany), kNumbers,
     "updates over which `inverse_sqrt` falls to 0.71; 0: as many as warm up, or 10,000 without a warm-up"},
    {"training", "min_lr_ratio", real<kTrain, &T::min_lr_ratio>(0.0, 1.0), kNumbers,
     "share of `learning_rate` at which `cosine_with_min_lr` ends"},
    {"training", "gradient_accumulation_steps", integer<kTrain, &T::gradient_accumulation_steps>(1, 1 << 20),
     kSameProduct, "backward passes of one update"},
    {"training", "gradient_checkpointing", choice<kTrain, &T::gradient_checkpointing>(kCheckpointings), kFree,
     "compute activations again in backward: never, always, or as far as memory demands"},
    {"training", "gather_negatives", boolean<kTrain, &T::gather_negatives>(), kNumbers,
     "contrastive negatives from all ranks"},
    {"training", "logging_steps", integer<kTrain, &T::logging_steps>(1, kMany), kFree, "updates between log lines"},
    {"training", "eval_strategy", choice<kTrain, &T::eval_strategy>(kIntervals), kWhileTraining,
     "when to evaluate: every `eval_steps` updates, after every epoch, or only at the end, which is always evaluated",
     "\"steps\" if `eval_steps` is above 0, else \"no\""},
    {"training", "eval_steps", integer<kTrain, &T::eval_steps>(0, kMany), kWhileTraining,
     "updates between evaluations; 0: at the end", "`0`, or `logging_steps` if `eval_strategy` is \"steps\""},
    {"training", "save_strategy", choice<kTrain, &T::save_strategy>(kIntervals), kWhileTraining,
     "when to save a checkpoint, likewise; one is always saved at the end",
     "\"steps\" if `save_steps` is above 0, else \"no\""},
    {"training", "save_steps", integer<kTrain, &T::save_steps>(0, kMany), kWhileTraining,
     "updates between checkpoints; 0: at the end", "`500`, or `0` if `save_strategy` is another"},
    {"training", "save_total_limit", integer<kTrain, &T::save_total_limit>(0, kMany), kFree,
     "checkpoints kept, the newest and the best among them; 0: all"},
    {"training", "load_best_model_at_end", boolean<kTrain, &T::load_best_model_at_end>(), kFromThereOn,
     "end with the weights of the best checkpoint instead of the last; needs equal `eval_strategy` and "
     "`save_strategy`"},
    {"training", "metric_for_best_model", text<kTrain, &T::metric_for_best_model>(true), kFromThereOn,
     "which validation figure says what is best, such as `loss` or `text_to_image_recall_at_1`",
     "\"loss\" if a best evaluation is asked for"},
    {"training", "greater_is_better", boolean<kTrain, &T::greater_is_better>(), kFromThereOn,
     "whether a greater figure is the better one", "false for losses and `perplexity`, else true"},
    {"training", "early_stopping_patience", integer<kTrain, &T::early_stopping_patience>(0, kMany), kFromThereOn,
     "stop training after so many evaluations in a row that are no better than the best; 0: never"},
    {"training", "early_stopping_threshold", real<kTrain, &T::early_stopping_threshold>(0.0, 1e9), kFromThereOn,
     "how much better than the best an evaluation must be to count for `early_stopping_patience`"},
    {"training", "resume", choice_or_path<kTrain, &T::resume, &T::resume_checkpoint>(kResumes), kFree,
     "`auto`: go on from the newest checkpoint of `output_dir`; `never`: refuse a folder that has one; `older`: go on "
     "from the newest that can be read; a path: begin from that checkpoint folder, of this run or another, and go on "
     "from what came of it when started again"},
    {"training", "throughput_warmup_steps", integer<kTrain, &T::throughput_warmup_steps>(0, kMany), kFree,
     "first updates of the process that throughput leaves out"},
    // [distributed]
    {"distributed", "world_size", integer<kDist, &P::world_size>(1, 65536), kSameProduct, "ranks (processes)"},
    {"distributed", "distribution_strategy", choice<kDist, &P::distribution_strategy>(kStrategies), kFree,
     "how gradients are summed; the same bits in each"},
    {"distributed", "wire_type", choice<kDist, &P::wire_type>(kNumberTypes), kNumbers,
     "type of gradients on their way"},
    {"distributed", "bucket_mib", integer<kDist, &P::bucket_mib>(1, 65536), kFree, "of `ddp` and `sharded`, MiB"},
    {"distributed", "sharded_stage", integer<kDist, &P::sharded_stage>(1, 3), kFree,
     "what its owner alone holds: 1 optimizer state, 2 gradients too, 3 parameters too"},
    {"distributed", "timeout_seconds", integer<kDist, &P::timeout_seconds>(1, 86400), kFree,
     "silence after which a rank counts as failed, seconds"},
    {"distributed", "hostfile", path<kDist, &P::hostfile>(), kFree,
     "machines for mpirun, this one among them; empty: this one alone"},
    // [machine]
    {"machine", "memory_limit_gib", real<kMachine, &H::memory_limit_gib>(0.0, 1e6), kFree,
     "memory that the run may use, GiB; 0: what the machine and its control groups allow"},
    {"machine", "threads", integer<kMachine, &H::threads>(0, 4096), kFree,
     "compute threads; 0: every core of this rank, but no more than a quota of processor time allows"},
    {"machine", "isa", choice<kMachine, &H::isa>(kIsas), kWhileTraining,
     "highest instruction set that kernels may use"},
    {"machine", "huge_pages", boolean<kMachine, &H::huge_pages>(), kFree, "arenas in huge pages"},
    {"machine", "lock_memory", boolean<kMachine, &H::lock_memory>(), kFree, "never swap the arenas out"},
    {"machine", "step_seconds", real<kMachine, &H::step_seconds>(0.0, 3600.0), kNumbers,
     "above 0: an exact wait in place of the arithmetic, to measure loading at an accelerator's pace, seconds"},
    // [report]
    {"report", "tensorboard", boolean<kReport, &R::tensorboard>(), kFree, "event files under `runs/`"},
    {"report", "html", boolean<kReport, &R::html>(), kFree, "`report.html`"},
    {"report", "profile", boolean<kReport, &R::profile>(), kFree,
     "`trace.json`: the mean step, operation by operation, for chrome://tracing or Perfetto"},
    // [[training.groups]]
    {kGroupsTable, "match", TextKey{of_group<std::string, &G::match>(), false}, kNumbers,
     "tensors of the group: a pattern of `*`, `?` and `[...]` for names of the checkpoint, where `bridgetower.` may be "
     "left out; a tensor belongs to the first group that matches it",
     "required"},
    {kGroupsTable, "learning_rate_multiplier",
     RealKey{of_group<double, &G::learning_rate_multiplier>(), 0.0, 1e6, true, true}, kNumbers,
     "the group's rate is so many times that of the schedule"},
    {kGroupsTable, "weight_decay", RealKey{of_group<double, &G::weight_decay>(), 0.0, 1e3, true, true}, kNumbers,
     "of all tensors of the group, biases and norms too", "as `training.weight_decay` says"},
    {kGroupsTable, "freeze", BoolKey{of_group<bool, &G::freeze>()}, kNumbers,
     "its tensors keep their weights, and take no memory and time in the update; weights that are one matrix product "
     "(query, key and value of an attention) are frozen together"},
};

// They stand last.
constexpr std::size_t kGroupKeys = 4;
static_assert(kKeys[std::size(kKeys) - kGroupKeys].table == kGroupsTable);

}  // namespace

Span<const Key> all_keys() { return keys_of_file().first(std::size(kKeys) - kGroupKeys); }
Span<const Key> group_keys() { return keys_of_file().subspan(std::size(kKeys) - kGroupKeys, kGroupKeys); }
Span<const Key> keys_of_file() { return {kKeys, std::size(kKeys)}; }
Span<const FreezeFlag> freeze_flags() { return {kFreezeFlags, std::size(kFreezeFlags)}; }

bool is_required(const Key& key) {
  return key.default_note != nullptr && std::string_view(key.default_note) == "required";
}

std::string qualified_name(const Key& key) { return std::string(key.table) + "." + key.name; }

}  // namespace bascule
