// SPDX-License-Identifier: Apache-2.0
#include "src/settings/keys.h"

#include <iterator>
#include <limits>
#include <string_view>

#include "src/base/batch.h"
#include "src/settings/key_of_member.h"

namespace bascule {
namespace {

// In the order of the enumerators.
constexpr const char* kNumberTypes[] = {"float32", "bf16"};  // Precision and WireType
constexpr const char* kDropouts[] = {"config", "off"};
constexpr const char* kPreprocessings[] = {"training", "processor"};
constexpr const char* kAugments[] = {"none", "crop_flip"};
constexpr const char* kInterpolations[] = {"bicubic", "bilinear"};
constexpr const char* kTextLayouts[] = {"blocks", "lines"};
constexpr const char* kMaskings[] = {"counted", "bernoulli"};
constexpr const char* kOnBadSample[] = {"stop", "skip"};
constexpr const char* kSchedulers[] = {"linear",         "cosine",
                                       "constant",       "constant_with_warmup",
                                       "polynomial",     "cosine_with_restarts",
                                       "inverse_sqrt",   "cosine_with_min_lr",
                                       "polynomial_jump"};
constexpr const char* kOptimizers[] = {"adamw", "lamb"};
constexpr const char* kEarlyStoppings[] = {"true", "false", "never"};
constexpr const char* kIntervals[] = {"no", "steps", "epoch"};
constexpr const char* kCheckpointings[] = {"off", "selective", "full", "fit"};
constexpr const char* kResumes[] = {"auto", "never", "older"};
constexpr const char* kStrategies[] = {"fast_ddp", "ddp", "sharded"};
constexpr const char* kIsas[] = {"auto", "avx2", "avx512", "scalar", "avx512_bf16"};
constexpr const char* kProducts[] = {"ours", "onednn"};
constexpr const char* kHugePages[] = {"transparent", "reserved", "off"};

constexpr KeyEffect kNumbers = KeyEffect::kNumbers;
constexpr KeyEffect kFree = KeyEffect::kFree;
constexpr KeyEffect kWhileTraining = KeyEffect::kWhileTraining;
constexpr KeyEffect kWithLibrary = KeyEffect::kWithLibrary;
constexpr KeyEffect kFromThereOn = KeyEffect::kFromThereOn;
constexpr KeyEffect kSameFiles = KeyEffect::kSameFiles;
constexpr KeyEffect kSameRows = KeyEffect::kSameRows;
constexpr KeyEffect kLonger = KeyEffect::kLonger;
constexpr KeyEffect kLower = KeyEffect::kLower;
constexpr KeyEffect kSameProduct = KeyEffect::kSameProduct;

// A bound for counts where only the machine sets a limit.
constexpr std::int64_t kMany = 1'000'000'000;
// Of one text, or of a source and a target together.
constexpr std::int64_t kMostTokens = kMaxTokensOfTexts;
// The update computes in float32, where a smaller value would be zero.
constexpr double kLeastFloat = 1.2e-38;
constexpr std::int64_t kMaxSeed = std::numeric_limits<std::int64_t>::max();

using Model = ModelSettings;
using Data = DataSettings;
using Engine = MediaEngineSettings;
using Simulation = SimulationSettings;
using Run = RunSettings;
using Training = TrainingSettings;
using Group = GroupSettings;
using Generation = GenerationSettings;
using Distributed = DistributedSettings;
using Machine = MachineSettings;
using Report = ReportSettings;

constexpr Key kKeys[] = {
    // [model]
    {"model", "model_name_or_path", path<&Model::model_name_or_path>(), kSameFiles,
     "Hugging Face folder: `config.json`, weights, tokenizer, preprocessor", "required"},
    {"model", "tokenizer_name", path<&Model::tokenizer_name>(), kSameFiles,
     "folder of the tokenizer, if it is not in the model folder"},
    {"model", "head", HeadKey{member<&Model::head>()}, kNumbers, "training task"},
    {"model", "from_scratch", boolean<&Model::from_scratch>(), kNumbers,
     "initialise the weights from `config.json` and the seed; the folder needs no weights"},
    {"model", "freeze", FreezeKey{member<&Model::freeze>()}, kNumbers, "parts of the model that are not trained"},
    {"model", "precision", choice<&Model::precision>(kNumberTypes), kNumbers,
     "number type of matrix products; parameters and moments are always float32"},
    {"model", "dropout", choice<&Model::dropout>(kDropouts), kNumbers,
     "`config`: the rates in `config.json`; `off`: no dropout"},
    {"model", "image_size", integer<&Model::image_size>(0, 65536), kNumbers,
     "side of pictures, pixels (image classification); resizes the position table when weights are loaded; 0: as in "
     "`config.json`",
     nullptr, "0"},
    // [data]
    {"data", "train_file", paths<&Data::train_file>(), kSameRows,
     "`.jsonl`, `.json`, `.csv`, `.tsv`, a folder with `metadata.jsonl`, or shards `shard-{000..127}.tar`; a list or a "
     "glob such as `part-*.jsonl` names several; `.txt`: a text corpus"},
    {"data", "validation_file", paths<&Data::validation_file>(), kFromThereOn,
     "data for evaluation, in the same formats"},
    {"data", "test_file", paths<&Data::test_file>(), kFromThereOn, "data for prediction, in the same formats"},
    {"data", "image_column", text<&Data::image_column>(false), kNumbers,
     "column with the path of the picture; in shards the extension of pictures (default: `jpg`, `jpeg` and `png`)"},
    {"data", "caption_column", text<&Data::caption_column>(false), kNumbers,
     "column with the caption; in shards an extension or a key of `.json` (default: `.txt`)"},
    {"data", "text_column", text<&Data::text_column>(true), kNumbers,
     "column with the text, for models that read no pictures, or with the source; empty: `caption_column`", nullptr,
     "\"\""},
    {"data", "text_pair_column", text<&Data::text_pair_column>(true), kNumbers,
     "column with the second text of each row, for heads that read pairs of texts", nullptr, "\"\""},
    {"data", "summary_column", text<&Data::summary_column>(true), kNumbers,
     "column with the target of each row, for heads that write a text; the source is in `text_column`", nullptr,
     "\"\""},
    {"data", "label_column", text<&Data::label_column>(true), kNumbers,
     "column with each row's class or 0/1 label; empty: folders are classes"},
    {"data", "max_seq_length", integer<&Data::max_seq_length>(2, 65536), kNumbers,
     "maximum length of a text in tokens, including the special ones; longer texts are truncated"},
    {"data", "source_prefix", text<&Data::source_prefix>(true), kNumbers,
     "text put before each source, such as `summarize: `", nullptr, "\"\""},
    {"data", "max_source_length", integer<&Data::max_source_length>(2, kMostTokens), kNumbers,
     "maximum length of a source in tokens, including its prefix and the special ones; longer ones are truncated",
     nullptr, "1024"},
    {"data", "max_target_length", integer<&Data::max_target_length>(2, kMostTokens), kNumbers,
     "maximum length of a target in tokens, including the special ones; longer ones are truncated", nullptr, "128"},
    {"data", "val_max_target_length", integer<&Data::val_max_target_length>(0, kMostTokens), kFromThereOn,
     "the same for validation and test; 0: `max_target_length`", nullptr, "0"},
    {"data", "ignore_pad_token_for_loss", boolean<&Data::ignore_pad_token_for_loss>(), kNumbers,
     "false: the loss also counts the padding of targets up to their maximum length; requires `pad_to_max_length = "
     "true`",
     nullptr, "true"},
    {"data", "pad_to_max_length", boolean<&Data::pad_to_max_length>(), kNumbers,
     "pad targets to their maximum length; no effect with `ignore_pad_token_for_loss = true`, as padding is then never "
     "computed",
     nullptr, "false"},
    {"data", "mlm_probability", real_above<&Data::mlm_probability>(0.0, 1.0), kNumbers,
     "fraction of tokens to predict, for masked language modelling"},
    {"data", "masking", choice<&Data::masking>(kMaskings), kNumbers,
     "`counted`: predict that fraction of each sample's tokens, rounded; `bernoulli`: draw for each token "
     "independently",
     nullptr, "\"counted\""},
    {"data", "max_predictions_per_seq", integer<&Data::max_predictions_per_seq>(1, kNoPredictionLimit), kNumbers,
     "maximum number of tokens to predict in a sample, with `masking = \"counted\"`", nullptr, "65536"},
    {"data", "text_layout", choice<&Data::text_layout>(kTextLayouts), kNumbers,
     "samples of a text corpus: `blocks` of `max_seq_length` tokens, cut from its documents laid end to end, or one of "
     "its `lines` each",
     nullptr, "\"blocks\""},
    {"data", "dupe_factor", integer<&Data::dupe_factor>(1, 1000), kNumbers,
     "passes over each document of a text corpus that make pairs of texts for training", nullptr, "10"},
    {"data", "short_seq_probability", real<&Data::short_seq_probability>(0.0, 1.0), kNumbers,
     "fraction of these passes that make pairs of a random shorter length", nullptr, "0.1"},
    {"data", "negative_fraction", real<&Data::negative_fraction>(0.0, 1.0), kNumbers,
     "fraction of samples paired with another picture's caption, for image-text matching without labels"},
    {"data", "preprocessing", choice<&Data::preprocessing>(kPreprocessings), kNumbers,
     "`training`: as in the published training script; `processor`: byte for byte as Transformers' image processor"},
    {"data", "augment", choice<&Data::augment>(kAugments), kNumbers,
     "random changes to training pictures; `crop_flip`: a random resized crop, as torchvision's, mirrored left to "
     "right with probability 1/2",
     nullptr, "\"none\""},
    {"data", "random_resized_crop_scale", range<&Data::random_resized_crop_scale>(0.0, 1.0), kNumbers,
     "least and greatest area of a random crop, as fractions of the picture's", nullptr, "[0.08, 1.0]"},
    {"data", "random_resized_crop_ratio", range<&Data::random_resized_crop_ratio>(1e-3, 1e3), kNumbers,
     "least and greatest ratio of width to height of a random crop", nullptr, "[0.75, 1.3333333333333333]"},
    {"data", "interpolation", choice<&Data::interpolation>(kInterpolations), kNumbers,
     "filter that resizes pictures, antialiased, with `preprocessing = \"training\"`", nullptr, "\"bicubic\""},
    {"data", "eval_crop_ratio", real<&Data::eval_crop_ratio>(0.1, 1.0), kNumbers,
     "side of the centre crop as a fraction of the shorter side after resizing, in evaluation and where `augment` is "
     "\"none\"; with 0.875 a picture for 224 pixels is first resized to 256",
     nullptr, "1.0"},
    {"data", "mixup_alpha", real<&Data::mixup_alpha>(0.0, 4.0), kNumbers,
     "mix the pictures and labels of training samples in pairs, with a share from Beta(alpha, alpha); from 0.1 on; 0: "
     "off",
     nullptr, "0.0"},
    {"data", "cutmix_alpha", real<&Data::cutmix_alpha>(0.0, 4.0), kNumbers,
     "exchange boxes between pairs of pictures, sized by Beta(alpha, alpha); 0: off", nullptr, "0.0"},
    {"data", "dataloader_num_workers", integer<&Data::dataloader_num_workers>(0, 1024), kFree,
     "loader threads; 0: the training thread loads the data"},
    {"data", "dataloader_drop_last", boolean<&Data::dataloader_drop_last>(), kNumbers,
     "drop the last, incomplete batch of an epoch"},
    {"data", "ring_slots", integer<&Data::ring_slots>(2, 1024), kFree,
     "batches in memory at once; one is filled while another is used"},
    {"data", "on_bad_sample", choice<&Data::on_bad_sample>(kOnBadSample), kFromThereOn,
     "where a picture is damaged, or its file is missing, or a source or target is empty: `stop`: report the row and "
     "stop; `skip`: list and count it; training uses the next good row in its place, evaluation omits it"},
    {"data", "max_eval_samples", integer<&Data::max_eval_samples>(0, kMany), kFromThereOn,
     "evaluate only the first N samples of `validation_file`; 0: all", nullptr, "0"},
    {"data", "max_predict_samples", integer<&Data::max_predict_samples>(0, kMany), kFromThereOn,
     "predict only the first N samples of `test_file`; 0: all", nullptr, "0"},
    // [media_engine]
    {"media_engine", "queue_depth", integer<&Engine::queue_depth>(1, 4096), kFree,
     "maximum number of pictures in flight"},
    {"media_engine", "memory_mib", integer<&Engine::memory_mib>(1, 1 << 20), kWhileTraining,
     "memory reserved for the engine when it opens, MiB"},
    {"media_engine", "max_megapixels", integer<&Engine::max_megapixels>(1, 178), kNumbers,
     "maximum picture size, megapixels; larger pictures count as bad samples"},
    {"media_engine", "scale_in_decoder", boolean<&Engine::scale_in_decoder>(), kNumbers,
     "let the JPEG decoder downscale pictures that are more than twice too large; faster, but changes pixels"},
    {"media_engine", "fallback", boolean<&Engine::fallback>(), kFree,
     "continue with the host engine if the device fails permanently"},
    {kSimulationTable, "units", integer<&Simulation::units>(1, 64), kFree, "decode units of the device"},
    {kSimulationTable, "pictures_per_second", real<&Simulation::pictures_per_second>(0.0, 1e9), kFree,
     "decoding rate of one unit; 0: as fast as the host computes"},
    {kSimulationTable, "latency_ms", real<&Simulation::latency_ms>(0.0, 1e6), kFree,
     "delay from doorbell to start of decoding, milliseconds"},
    {kSimulationTable, "polling", boolean<&Simulation::polling>(), kFree,
     "the driver polls instead of using interrupts"},
    {kSimulationTable, "timeout_ms", integer<&Simulation::timeout_ms>(1, 1000000), kFree,
     "how long past the device's own estimate a picture may take before the driver treats it as lost, milliseconds"},
    {kSimulationTable, "faults", WordsKey{member<&Simulation::faults>()}, kFree,
     "faults to inject: `name:probability` (per picture) or `name@n` (at the n-th picture); see "
     "`firmware_shims/README.md`"},
    {kSimulationTable, "fault_seed", integer<&Simulation::fault_seed>(0, kMaxSeed), kFree,
     "seed of the injected faults"},
    // [training]
    {"training", "output_dir", path<&Run::output_dir>(), kFree, "folder for checkpoints and results", "required",
     nullptr, "run"},
    {"training", "do_train", boolean<&Training::do_train>(), kNumbers, "whether to train",
     "true if `train_file` is set"},
    {"training", "do_eval", boolean<&Training::do_eval>(), kFree, "whether to evaluate",
     "true if `validation_file` is set"},
    {"training", "do_predict", boolean<&Training::do_predict>(), kFree,
     "evaluate the test file and write `embeddings.safetensors` or `predictions.jsonl`", "true if `test_file` is set"},
    {"training", "seed", integer<&Run::seed>(0, kMaxSeed), kNumbers,
     "seed for initial weights, sample order, dropout, masks and negatives", nullptr, nullptr, "run"},
    {"training", "num_train_epochs", real<&Training::num_train_epochs>(0.0, 1e9), kLonger,
     "epochs, also a part of one: the number of updates is rounded up; 0: `max_steps` sets the length",
     "5.0, or 0.0 if `max_steps` is set"},
    {"training", "max_steps", integer<&Training::max_steps>(0, kMany), kLonger,
     "total updates; 0: `num_train_epochs` sets the length"},
    {"training", "per_device_train_batch_size", integer<&Training::per_device_train_batch_size>(1, 1 << 20), kNumbers,
     "samples per rank and backward pass"},
    {"training", "per_device_eval_batch_size", integer<&Training::per_device_eval_batch_size>(1, 1 << 20), kFromThereOn,
     "samples per evaluation batch; the contrastive evaluation loss depends on it"},
    {"training", "learning_rate", real<&Training::learning_rate>(0.0, 1e3), kLower, "peak learning rate"},
    {"training", "weight_decay", real<&Training::weight_decay>(0.0, 1e3), kNumbers,
     "decoupled weight decay of matrices and embedding tables; biases and norms have none"},
    {"training", "optimizer", choice<&Training::optimizer>(kOptimizers), kNumbers,
     "`adamw`, or `lamb` (steps scaled by each tensor's norm) for very large batches; both correct bias", nullptr,
     "\"adamw\""},
    {"training", "adam_beta1", real_below<&Training::adam_beta1>(0.0, 1.0), kNumbers, "decay rate of the first moment"},
    {"training", "adam_beta2", real_below<&Training::adam_beta2>(0.0, 1.0), kNumbers,
     "decay rate of the second moment"},
    {"training", "adam_epsilon", real<&Training::adam_epsilon>(kLeastFloat, 1.0), kNumbers,
     "added to the square root of the second moment"},
    {"training", "max_grad_norm", real<&Training::max_grad_norm>(0.0, 1e30), kNumbers,
     "clip gradients to this global norm; 0: no clipping"},
    {"training", "label_smoothing_factor", real_below<&Training::label_smoothing_factor>(0.0, 1.0), kNumbers,
     "fraction of each label spread evenly over all classes, for heads with classes; applies to the "
     "training loss and, as in Trainer, to the evaluation loss, but not to that of image classification"},
    {"training", "ema_decay", real_below<&Training::ema_decay>(0.0, 1.0), kNumbers,
     "moving average of the weights: fraction that each of its steps keeps; 0: none", nullptr, "0.0"},
    {"training", "ema_steps", integer<&Training::ema_steps>(1, kMany), kNumbers,
     "update the average every N updates; during warm-up it is a copy of the weights", nullptr, "1"},
    {"training", "lr_scheduler_type", choice<&Training::lr_scheduler_type>(kSchedulers), kNumbers,
     "learning rate schedule"},
    {"training", "lr_schedule_steps", integer<&Training::lr_schedule_steps>(0, kMany), kLonger,
     "updates in the schedule; afterwards the rate keeps its final value; 0: the whole run"},
    {"training", "warmup_steps", integer<&Training::warmup_steps>(0, kMany), kNumbers,
     "warm-up updates, over which the rate rises"},
    {"training", "warmup_ratio", real<&Training::warmup_ratio>(0.0, 1.0), kNumbers,
     "warm-up as a fraction of the schedule's updates, rounded up"},
    {"training", "warmup_start_ratio", real_below<&Training::warmup_start_ratio>(0.0, 1.0), kNumbers,
     "rate at the beginning of the warm-up, as a fraction of `learning_rate`", nullptr, "0.0"},
    {"training", "lr_power", real_above<&Training::lr_power>(0.0, 100.0), kNumbers,
     "exponent of the schedules `polynomial` and `polynomial_jump`"},
    {"training", "lr_end", real<&Training::lr_end>(0.0, 1e3), kNumbers,
     "rate at the end of the `polynomial` schedule, below `learning_rate`"},
    {"training", "lr_num_cycles", integer<&Training::lr_num_cycles>(1, kMany), kNumbers,
     "half cosines in `cosine_with_restarts`, each from the peak rate to 0"},
    {"training", "lr_timescale", integer<&Training::lr_timescale>(0, kMany), kNumbers,
     "updates over which `inverse_sqrt` falls to 0.71 of its peak; 0: the number of warm-up updates, or 10,000 without "
     "warm-up"},
    {"training", "min_lr_ratio", real<&Training::min_lr_ratio>(0.0, 1.0), kNumbers,
     "final rate of `cosine_with_min_lr`, as a fraction of `learning_rate`"},
    {"training", "gradient_accumulation_steps", integer<&Training::gradient_accumulation_steps>(1, 1 << 20),
     kSameProduct, "backward passes per update"},
    {"training", "gradient_checkpointing", choice<&Training::gradient_checkpointing>(kCheckpointings), kFree,
     "recompute activations in the backward pass: none, those of cheap operations, all, or as many as memory requires"},
    {"training", "gather_negatives", boolean<&Training::gather_negatives>(), kNumbers,
     "use the samples of all ranks as contrastive negatives"},
    {"training", "logging_steps", integer<&Training::logging_steps>(1, kMany), kFree, "updates between log lines"},
    {"training", "eval_strategy", choice<&Training::eval_strategy>(kIntervals), kWhileTraining,
     "when to evaluate: every `eval_steps` updates, after every epoch, or only at the end; the end is always evaluated",
     "\"steps\" if `eval_steps` is above 0, else \"no\""},
    {"training", "eval_steps", integer<&Training::eval_steps>(0, kMany), kWhileTraining,
     "updates between evaluations; 0: only at the end", "`0`, or `logging_steps` if `eval_strategy` is \"steps\""},
    {"training", "save_strategy", choice<&Training::save_strategy>(kIntervals), kWhileTraining,
     "when to save a checkpoint, in the same terms; one is always saved at the end",
     "\"steps\" if `save_steps` is above 0, else \"no\""},
    {"training", "save_steps", integer<&Training::save_steps>(0, kMany), kWhileTraining,
     "updates between checkpoints; 0: only at the end", "`500`, or `0` if `save_strategy` is not \"steps\""},
    {"training", "save_total_limit", integer<&Training::save_total_limit>(0, kMany), kFree,
     "checkpoints to keep, including the newest and the best; 0: all"},
    {"training", "load_best_model_at_end", boolean<&Training::load_best_model_at_end>(), kFromThereOn,
     "finish with the weights of the best checkpoint instead of the last; requires `eval_strategy` and `save_strategy` "
     "to be equal"},
    {"training", "metric_for_best_model", text<&Training::metric_for_best_model>(true), kFromThereOn,
     "validation metric that selects the best checkpoint: `loss`, or one that the result files name",
     "\"loss\" if `load_best_model_at_end` or `early_stopping_patience` is set"},
    {"training", "greater_is_better", boolean<&Training::greater_is_better>(), kFromThereOn,
     "whether a greater metric is better", "false for `loss` and metrics where smaller is better, else true"},
    {"training", "early_stopping_patience", integer<&Training::early_stopping_patience>(0, kMany), kFromThereOn,
     "stop training after this many evaluations in a row without a new best; 0: never"},
    {"training", "early_stopping_threshold", real<&Training::early_stopping_threshold>(0.0, 1e9), kFromThereOn,
     "improvement over the best that an evaluation needs to reset `early_stopping_patience`"},
    {"training", "resume", choice_or_path<&Run::resume, &Run::resume_checkpoint>(kResumes), kFree,
     "checkpoint to resume from: `auto`: newest; `older`: newest readable; `never`: none; or a path", nullptr, nullptr,
     "run"},
    {"training", "throughput_warmup_steps", integer<&Training::throughput_warmup_steps>(0, kMany), kFree,
     "updates at the start of the process to exclude from throughput"},
    {"training", "predict_with_generate", boolean<&Training::predict_with_generate>(), kFromThereOn,
     "evaluations also write a text for each source and compare it with the target (ROUGE); with a test file the texts "
     "are kept",
     nullptr, "false"},
    {"training", "generate_ema", boolean<&Training::generate_ema>(), kFromThereOn,
     "the same with the averaged weights (`ema_decay`), which takes as long again", nullptr, "false"},
    // [generation]
    {"generation", "num_beams", integer<&Generation::num_beams>(1, 1024), kFromThereOn,
     "sequences that beam search follows for each source; 1: greedy search", nullptr, "1"},
    {"generation", "max_length", integer<&Generation::max_length>(0, kMostTokens), kFromThereOn,
     "maximum length of a written text in tokens, including the start token; 0: the length of targets "
     "(`data.val_max_target_length`)",
     nullptr, "0"},
    {"generation", "max_new_tokens", integer<&Generation::max_new_tokens>(0, kMostTokens), kFromThereOn,
     "the same without the start token; 0: `max_length` counts", nullptr, "0"},
    {"generation", "min_length", integer<&Generation::min_length>(0, kMostTokens), kFromThereOn,
     "minimum length of a written text in tokens, including the start token", nullptr, "0"},
    {"generation", "min_new_tokens", integer<&Generation::min_new_tokens>(0, kMostTokens), kFromThereOn,
     "the same without the start token; the larger one counts", nullptr, "0"},
    {"generation", "length_penalty", real<&Generation::length_penalty>(-100.0, 100.0), kFromThereOn,
     "beam search ranks finished texts by log probability / length ^ `length_penalty`; above 0 favours long texts",
     nullptr, "1.0"},
    {"generation", "early_stopping", choice_or_flag<&Generation::early_stopping>(kEarlyStoppings, 1), kFromThereOn,
     "when beam search ends for a source: `true`: once `num_beams` texts are finished; `false`: once a better one is "
     "unlikely; `never`: once a better one is impossible",
     nullptr, "\"false\""},
    {"generation", "no_repeat_ngram_size", integer<&Generation::no_repeat_ngram_size>(0, kMostTokens), kFromThereOn,
     "no text has the same sequence of so many tokens twice; 0: no rule", nullptr, "0"},
    // [distributed]
    {"distributed", "world_size", integer<&Distributed::world_size>(1, 65536), kSameProduct, "ranks (processes)"},
    {"distributed", "distribution_strategy", choice<&Distributed::distribution_strategy>(kStrategies), kFree,
     "how gradients are summed; every strategy gives the same bits"},
    {"distributed", "wire_type", choice<&Distributed::wire_type>(kNumberTypes), KeyEffect::kBetweenMachines,
     "number type of gradients sent between machines"},
    {"distributed", "bucket_mib", integer<&Distributed::bucket_mib>(1, 65536), kFree,
     "bucket size of `ddp` and `sharded`, MiB"},
    {"distributed", "sharded_stage", integer<&Distributed::sharded_stage>(1, 3), kFree,
     "sharded state: 1 optimizer state, 2 also gradients, 3 also parameters"},
    {"distributed", "timeout_seconds", integer<&Distributed::timeout_seconds>(1, 86400), kFree,
     "time without a sign of life after which a rank counts as failed, seconds"},
    {"distributed", "hostfile", path<&Distributed::hostfile>(), kFree,
     "file of machines for mpirun, including this one; empty: only this machine"},
    // [machine]
    {"machine", "memory_limit_gib", real<&Machine::memory_limit_gib>(0.0, 1e6), kFree,
     "memory that the run may use, GiB; 0: as much as the machine and its control groups allow"},
    {"machine", "threads", integer<&Machine::threads>(0, 4096), kFree,
     "compute threads; 0: every core of this rank, up to its CPU quota"},
    {"machine", "isa", choice<&Machine::isa>(kIsas), kWithLibrary,
     "instruction set of the kernels; auto: the fastest of this CPU; scalar: plain C++, for checking, not for speed"},
    {"machine", "products", choice<&Machine::products>(kProducts), kNumbers,
     "matrix products: `ours`: the same bits on every CPU with AVX2 and FMA; `onednn`: only on the same kind of CPU "
     "and `isa`",
     nullptr, "\"onednn\""},
    {"machine", "huge_pages", choice_or_flag<&Machine::huge_pages>(kHugePages), kFree,
     "pages of the arenas: `transparent`: large where the system forms them; `reserved`: from the pool that "
     "`vm.nr_hugepages` reserves; `off`: small; without large pages a run says so and uses small ones"},
    {"machine", "lock_memory", boolean<&Machine::lock_memory>(), kFree,
     "lock the arenas in memory, so that they are never swapped out"},
    {"machine", "step_seconds", real<&Machine::step_seconds>(0.0, 3600.0), kNumbers,
     "above 0: wait this long in place of each step's arithmetic, to measure loading at an accelerator's pace, "
     "seconds"},
    // [report]
    {"report", "tensorboard", boolean<&Report::tensorboard>(), kFree, "write TensorBoard event files under `runs/`"},
    {"report", "html", boolean<&Report::html>(), kFree, "write `report.html`"},
    {"report", "profile", boolean<&Report::profile>(), kFree,
     "write `trace.json`: the mean step, operation by operation, for chrome://tracing or Perfetto"},
    {"report", "hash_steps", integer<&Report::hash_steps>(0, kMany), kFree,
     "hash values and gradients every N updates, tensor by tensor, for `bascule diff`; 0: never"},
    {"report", "status_seconds", real<&Report::status_seconds>(0.0, 86400.0), kFree,
     "seconds between writes of `status.json` and `bascule.prom`, for monitoring; 0: never"},
    // [[training.groups]]
    {kGroupsTable, "match", text<&Group::match>(false), kNumbers,
     "tensor names in the group, a pattern with `*`, `?` and `[...]`; the prefix of the model's body may be omitted; a "
     "tensor belongs to the first group that matches it",
     "required"},
    {kGroupsTable, "learning_rate_multiplier", real<&Group::learning_rate_multiplier>(0.0, 1e6), kNumbers,
     "factor on the scheduled learning rate"},
    {kGroupsTable, "weight_decay", real<&Group::weight_decay>(0.0, 1e3), kNumbers,
     "weight decay of all tensors in the group, including biases and norms", "the rule of `training.weight_decay`"},
    {kGroupsTable, "freeze", boolean<&Group::freeze>(), kNumbers,
     "do not train these tensors; they then take no memory or time in the update; tensors of one matrix product, as "
     "query, "
     "key and value of many attentions, must be frozen together"},
};

// The keys of groups come last.
constexpr std::size_t kGroupKeys = 4;
static_assert(kKeys[std::size(kKeys) - kGroupKeys].table == kGroupsTable);

}  // namespace

Span<const Key> all_keys() { return keys_of_file().first(std::size(kKeys) - kGroupKeys); }
Span<const Key> group_keys() { return keys_of_file().subspan(std::size(kKeys) - kGroupKeys, kGroupKeys); }
Span<const Key> keys_of_file() { return {kKeys, std::size(kKeys)}; }

bool is_required(const Key& key) {
  return key.default_note != nullptr && std::string_view(key.default_note) == "required";
}

std::string qualified_name(const Key& key) { return std::string(key.table) + "." + key.name; }

}  // namespace bascule
