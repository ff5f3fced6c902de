// SPDX-License-Identifier: Apache-2.0
// The keys of training and of the evaluations in it.
#include "src/settings/key_tables.h"

namespace bascule {
namespace {

// In the order of the enumerators.
constexpr const char* kSchedulers[] = {"linear",         "cosine",
                                       "constant",       "constant_with_warmup",
                                       "polynomial",     "cosine_with_restarts",
                                       "inverse_sqrt",   "cosine_with_min_lr",
                                       "polynomial_jump"};
constexpr const char* kOptimizers[] = {"adamw", "lamb", "adafactor"};
constexpr const char* kEarlyStoppings[] = {"true", "false", "never"};
constexpr const char* kBatchSamplers[] = {"batch_sampler", "no_duplicates"};
constexpr const char* kIntervals[] = {"no", "steps", "epoch"};
constexpr const char* kCheckpointings[] = {"off", "selective", "full", "fit"};
constexpr const char* kEmbeddingLosses[] = {"multiple_negatives_ranking", "multiple_negatives_symmetric_ranking",
                                            "cosent", "cosine_similarity"};
constexpr const char* kTrainingResumes[] = {"auto", "never", "older"};

using Run = RunSettings;
using Training = TrainingSettings;
using Generation = GenerationSettings;

constexpr Key kTrainingKeys[] = {
    // [training]
    {"training", "output_dir", path<&Run::output_dir>(), kFree, "folder for checkpoints and results", "required"},
    {"training", "do_train", boolean<&Training::do_train>(), kNumbers, "whether to train",
     "true if `train_file` is set"},
    {"training", "do_eval", boolean<&Training::do_eval>(), kFree, "whether to evaluate",
     "true if `validation_file` or `validation_share` is set"},
    {"training", "do_predict", boolean<&Training::do_predict>(), kFree,
     "evaluate the test file and write `embeddings.safetensors` or `predictions.jsonl`", "true if `test_file` is set"},
    {"training", "seed", integer<&Run::seed>(0, kMaxSeed), kNumbers,
     "seed for initial weights, sample order, dropout, masks and negatives"},
    {"training", "num_train_epochs", real<&Training::num_train_epochs>(0.0, 1e9), kLonger,
     "epochs, also a part of one: the number of updates is rounded up; 0: `max_steps` sets the length",
     "5.0, or 0.0 if `max_steps` is set"},
    {"training", "max_steps", integer<&Training::max_steps>(0, kMany), kLonger,
     "total updates; 0: `num_train_epochs` sets the length"},
    {"training", "per_device_train_batch_size", integer<&Training::per_device_train_batch_size>(1, 1 << 20), kNumbers,
     "samples per rank and backward pass"},
    {"training", "per_device_eval_batch_size", integer<&Training::per_device_eval_batch_size>(1, 1 << 20), kFromThereOn,
     "samples per evaluation batch; the contrastive evaluation loss depends on it"},
    {"training", "batch_sampler", choice<&Training::batch_sampler>(kBatchSamplers), kNumbers,
     "`no_duplicates`: no training batch (of all ranks) has a text twice, for heads that embed texts; `batch_sampler`: "
     "an epoch's order is cut into batches",
     "\"no_duplicates\" if the texts of a batch are each other's negatives, else \"batch_sampler\"",
     "\"batch_sampler\""},
    {"training", "learning_rate", real<&Training::learning_rate>(0.0, 1e3), kLower, "peak learning rate"},
    {"training", "weight_decay", real<&Training::weight_decay>(0.0, 1e3), kNumbers,
     "decoupled weight decay of matrices and embedding tables; biases and norms have none"},
    {"training", "optimizer", choice<&Training::optimizer>(kOptimizers), kNumbers,
     "`adamw`; `lamb` (steps scaled by each tensor's norm) for very large batches; or `adafactor` (squares of "
     "gradients by row and column), whose states take next to no memory",
     nullptr, "\"adamw\""},
    {"training", "adam_beta1", real_below<&Training::adam_beta1>(0.0, 1.0), kNumbers, "decay rate of the first moment"},
    {"training", "adam_beta2", real_below<&Training::adam_beta2>(0.0, 1.0), kNumbers,
     "decay rate of the second moment"},
    {"training", "adam_epsilon", real<&Training::adam_epsilon>(kLeastFloat, 1.0), kNumbers,
     "added to the square root of the second moment"},
    {"training", "max_grad_norm", real<&Training::max_grad_norm>(0.0, 1e30), kNumbers,
     "clip gradients to this global norm; 0: no clipping"},
    {"training", "fused_update", boolean<&Training::fused_update>(), kFree,
     "update each parameter as soon as backward has its gradient, whose memory is then free; with `adafactor`, in one "
     "process, without clipping or accumulation; the results are the same",
     nullptr, "false"},
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
    {"training", "loss", choice<&Training::loss>(kEmbeddingLosses), kNumbers,
     "of heads that embed texts: whether the second text of a row is found among those of all rows and their "
     "negatives, "
     "`symmetric` also the first; whether cosines have the order of the scores in `label_column`; or their squared "
     "errors",
     nullptr, "\"multiple_negatives_ranking\""},
    {"training", "similarity_scale", real_above<&Training::similarity_scale>(0.0, 1e4), kNumbers,
     "by which these losses, but for `cosine_similarity`, multiply cosines: the inverse of a temperature", nullptr,
     "20.0"},
    {"training", "mini_batch_size", integer<&Training::mini_batch_size>(0, kMany), kNumbers,
     "of heads that embed texts: samples of a batch that go through the model at a time, in the memory of so many, "
     "with "
     "one more forward pass; the loss is that of the whole batch; 0: all at once",
     nullptr, "0"},
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
    {"training", "resume", choice_or_path<&Run::resume, &Run::resume_checkpoint>(kTrainingResumes), kFree,
     "checkpoint to resume from: `auto`: newest; `older`: newest readable; `never`: none; or a path"},
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
     "the same without the start token; 0: `min_length` counts", nullptr, "0"},
    {"generation", "length_penalty", real<&Generation::length_penalty>(-100.0, 100.0), kFromThereOn,
     "beam search ranks finished texts by log probability / length ^ `length_penalty`; above 0 favours long texts",
     nullptr, "1.0"},
    {"generation", "early_stopping", choice_or_flag<&Generation::early_stopping>(kEarlyStoppings, 1), kFromThereOn,
     "when beam search ends for a source: `true`: once `num_beams` texts are finished; `false`: once a better one is "
     "unlikely; `never`: once a better one is impossible",
     nullptr, "\"false\""},
    {"generation", "no_repeat_ngram_size", integer<&Generation::no_repeat_ngram_size>(0, kMostTokens), kFromThereOn,
     "no text has the same sequence of so many tokens twice; 0: no rule", nullptr, "0"},
};

}  // namespace

Span<const Key> keys_of_training() { return {kTrainingKeys, std::size(kTrainingKeys)}; }

// The keys of [[training.groups]].

namespace {

using Group = GroupSettings;

constexpr Key kGroupKeys[] = {
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

}  // namespace

Span<const Key> keys_of_groups() { return {kGroupKeys, std::size(kGroupKeys)}; }

}  // namespace bascule
