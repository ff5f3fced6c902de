// SPDX-License-Identifier: Apache-2.0
#include "src/settings/validate.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/error.h"
#include "src/settings/keys.h"

namespace bascule {

void refuse(const Settings& settings, const std::string& key, const std::string& what, const std::string& what_to_do) {
  throw Error{ErrorKind::kSettings, where_written(settings, key), what, what_to_do};
}

bool is_written(const Settings& settings, const std::string& key) { return settings.origin.where.count(key) > 0; }

std::string heads_that(const Settings& settings, bool HeadWords::*trait, const char* quote) {
  std::string text;
  for (const HeadWords& head : settings.words.heads) {
    if (head.*trait) text += (text.empty() ? "" : " or ") + (quote + head.name + quote);
  }
  return text;
}

void need_head(const Settings& settings, bool is_set, const std::string& key, bool HeadWords::*trait,
               const std::string& does, const char* what_to_do) {
  if (!is_set || settings.head()->*trait) return;
  const std::string heads = heads_that(settings, trait, "\"");
  refuse(settings, key,
         key + " is set, but " + (heads.empty() ? "no head of this model " : "only the head " + heads + " ") + does,
         heads.empty() ? what_to_do : "remove it, or set model.head = " + heads);
}

void applies_only(const Settings& settings, bool is_set, const std::string& key, const std::string& to,
                  const std::string& what_to_do) {
  if (is_set) refuse(settings, key, key + " applies only to " + to, what_to_do);
}

namespace {

void need_file(const Settings& settings, bool is_on, const PathsSetting& file, const std::string& phase_key,
               const std::string& file_key) {
  if (is_on && !file.is_given()) {
    refuse(settings, phase_key, phase_key + " = true, but " + file_key + " is missing",
           "set it, or set " + phase_key + " = false");
  }
}

void check_phases(const Settings& s) {
  need_file(s, s.training.do_train, s.data.train_file, "training.do_train", "data.train_file");
  need_file(s, s.training.do_eval, s.data.evaluation_file(), "training.do_eval", "data.validation_file");
  need_file(s, s.training.do_predict, s.data.prediction_file(), "training.do_predict", "data.test_file");
  if (!s.training.do_train && !s.training.do_eval && !s.training.do_predict) {
    refuse(s, "training.do_train", "the run has nothing to do",
           "set data.train_file, data.validation_file or data.test_file, and leave the matching do_train, do_eval or "
           "do_predict on");
  }
}

void check_share(const Settings& s) {
  constexpr char kKey[] = "data.validation_share";
  if (s.data.validation_share == 0.0) return;
  if (s.data.validation_file.is_given())
    refuse(s, kKey, std::string(kKey) + " and data.validation_file are both set", "remove one");
  if (!s.data.train_file.is_given())
    refuse(s, kKey, std::string(kKey) + " is set, but data.train_file is missing",
           "set it, or name a data.validation_file");
}

void check_columns(const Settings& s) {
  const DataSettings& data = s.data;
  need_head(s, !data.label_column.empty(), "data.label_column", &HeadWords::reads_labels, "reads labels");
  need_head(s, !data.text_pair_column.empty(), "data.text_pair_column", &HeadWords::reads_pairs,
            "reads pairs of texts");
  need_head(s, data.label_all_tokens, "data.label_all_tokens", &HeadWords::reads_words, "reads words with tags");
  for (const auto& [key, column] :
       {std::pair{"data.text_column", &data.text_column}, std::pair{"data.text_pair_column", &data.text_pair_column}}) {
    const bool is_taken = *column == data.label_column || (column != &data.text_column && *column == data.text_column);
    if (!column->empty() && is_taken)
      refuse(s, key, "text_column, text_pair_column and label_column must be different columns",
             "name a column of its own for each");
  }
  const bool same = data.image_column == data.caption_column || data.image_column == data.label_column ||
                    data.caption_column == data.label_column;
  if (same) {
    const bool label = data.image_column != data.caption_column;
    refuse(s, label ? "data.label_column" : "data.caption_column",
           "image_column, caption_column and label_column must be different columns",
           "name a column of its own for each");
  }
}

void check_rand_augment(const Settings& s) {
  const DataSettings& data = s.data;
  const DataSettings defaults;
  const bool is_off = data.rand_augment_num_ops == 0;
  constexpr char kTo[] = "data.rand_augment_num_ops of 1 or more";
  applies_only(s, is_off && data.rand_augment_magnitude != defaults.rand_augment_magnitude,
               "data.rand_augment_magnitude", kTo);
  applies_only(s, is_off && data.rand_augment_num_magnitude_bins != defaults.rand_augment_num_magnitude_bins,
               "data.rand_augment_num_magnitude_bins", kTo);
  if (!is_off && data.rand_augment_magnitude >= data.rand_augment_num_magnitude_bins) {
    refuse(s, "data.rand_augment_magnitude",
           "data.rand_augment_magnitude = " + std::to_string(data.rand_augment_magnitude) + ": there are " +
               std::to_string(data.rand_augment_num_magnitude_bins) + " bins, counted from 0",
           "lower it, or raise data.rand_augment_num_magnitude_bins");
  }
}

void check_random_erasing(const Settings& s) {
  const DataSettings& data = s.data;
  const DataSettings defaults;
  const bool is_off = data.random_erasing_probability == 0.0;
  constexpr char kTo[] = "data.random_erasing_probability above 0";
  applies_only(s, is_off && !(data.random_erasing_scale == defaults.random_erasing_scale), "data.random_erasing_scale",
               kTo);
  applies_only(s, is_off && !(data.random_erasing_ratio == defaults.random_erasing_ratio), "data.random_erasing_ratio",
               kTo);
}

// Keys that have no effect beside others.
void check_pictures(const Settings& s) {
  const DataSettings& data = s.data;
  if (data.preprocessing == Preprocessing::kProcessor) {
    const std::string change = data.random_change();
    for (const auto& [is_set, key] : {std::pair{!change.empty(), change.c_str()},
                                      {data.interpolation != Interpolation::kBicubic, "data.interpolation"},
                                      {data.eval_crop_ratio != 1.0, "data.eval_crop_ratio"}}) {
      if (is_set)
        refuse(s, key, std::string(key) + " is set, but data.preprocessing = \"processor\" leaves no choice",
               "remove it, or set data.preprocessing = \"training\"");
    }
  }
  const DataSettings defaults;
  const bool is_off = data.augment == Augment::kNone;
  constexpr char kTo[] = "data.augment = \"crop_flip\"";
  applies_only(s, is_off && !(data.random_resized_crop_scale == defaults.random_resized_crop_scale),
               "data.random_resized_crop_scale", kTo);
  applies_only(s, is_off && !(data.random_resized_crop_ratio == defaults.random_resized_crop_ratio),
               "data.random_resized_crop_ratio", kTo);
  check_rand_augment(s);
  check_random_erasing(s);
}

// A key of text corpora does nothing without one, and a key of one rule of masking nothing with the other.
void check_corpus(const Settings& s) {
  const DataSettings& data = s.data;
  const DataSettings defaults;
  const bool has_corpus = data.train_file.is_corpus() || data.validation_file.is_corpus() || data.test_file.is_corpus();
  applies_only(s, !has_corpus && data.text_layout != defaults.text_layout, "data.text_layout",
               "a text corpus, whose files end in .txt", "remove it");
  const bool makes_pairs = has_corpus && s.head()->reads_pairs;
  if (makes_pairs && data.text_layout != defaults.text_layout) {
    refuse(s, "data.text_layout", "data.text_layout has no effect: samples of this head are pairs of texts",
           "remove it");
  }
  constexpr char kOfPairs[] = "a text corpus with a head that reads pairs of texts";
  applies_only(s, !makes_pairs && data.dupe_factor != defaults.dupe_factor, "data.dupe_factor", kOfPairs, "remove it");
  applies_only(s, !makes_pairs && data.short_seq_probability != defaults.short_seq_probability,
               "data.short_seq_probability", kOfPairs, "remove it");
  applies_only(s, data.masking != Masking::kCounted && data.max_predictions_per_seq != defaults.max_predictions_per_seq,
               "data.max_predictions_per_seq", "masking = \"counted\"", "remove one of them");
  constexpr std::int64_t kShortest = 5;
  if (has_corpus && data.max_seq_length < kShortest) {
    refuse(s, "data.max_seq_length",
           "data.max_seq_length = " + std::to_string(data.max_seq_length) +
               ": samples of a text corpus have at least " + std::to_string(kShortest) + " tokens",
           "raise it");
  }
}

void check_folders(const Settings& s) {
  if (s.run.resume == Resume::kCheckpoint && !s.training.do_train) {
    refuse(s, "training.resume", "training.resume names a checkpoint, but the run does not train",
           "remove it, or name the checkpoint as model.model_name_or_path");
  }
  const std::string& output = s.run.output_dir.resolved;
  if (output == s.model.model_name_or_path.resolved || output == s.model.tokenizer_name.resolved) {
    refuse(s, "training.output_dir", "training.output_dir is also the folder of the model or tokenizer",
           "choose another: the run would overwrite it");
  }
}

void check_length(const Settings& s) {
  const TrainingSettings& t = s.training;
  if (t.max_steps > 0 && t.num_train_epochs > 0.0) {
    refuse(s, "training.max_steps", "training.max_steps and training.num_train_epochs are both set", "remove one");
  }
  if (t.max_steps == 0 && !(t.num_train_epochs > 0.0)) {
    refuse(s, "training.num_train_epochs", "training.num_train_epochs and training.max_steps are both 0",
           "set one of them");
  }
}

// One of the pairs eval_strategy and eval_steps, save_strategy and save_steps.
void check_interval(const Settings& s, const std::string& what, Interval strategy, std::int64_t steps) {
  const std::string strategy_key = "training." + what + "_strategy", steps_key = "training." + what + "_steps";
  if (strategy == Interval::kSteps && steps == 0) {
    refuse(s, steps_key, strategy_key + " = \"steps\", but " + steps_key + " = 0",
           "set the number of updates between two, or set " + strategy_key + " = \"no\"");
  }
  if (strategy != Interval::kSteps && steps > 0) {
    refuse(s, steps_key, steps_key + " is set, but " + strategy_key + " is not \"steps\"", "remove one");
  }
}

void check_best(const Settings& s) {
  const TrainingSettings& t = s.training;
  const bool wants_best = !t.metric_for_best_model.empty();
  const auto refuse_key = [&](const char* key, const std::string& what, const std::string& what_to_do) {
    refuse(s, std::string("training.") + key, std::string("training.") + key + " " + what, what_to_do);
  };
  const char* const asks = t.load_best_model_at_end        ? "load_best_model_at_end"
                           : t.early_stopping_patience > 0 ? "early_stopping_patience"
                                                           : "metric_for_best_model";
  if (!wants_best && t.greater_is_better)
    refuse_key("greater_is_better", "is set without training.metric_for_best_model", "remove it");
  if (t.early_stopping_threshold > 0.0 && t.early_stopping_patience == 0)
    refuse_key("early_stopping_threshold", "is set without training.early_stopping_patience", "remove it, or set both");
  if (!wants_best || !t.do_train) return;
  if (t.eval_strategy == Interval::kNo)
    refuse_key(asks, "needs evaluations during training", "set training.eval_strategy = \"steps\" or \"epoch\"");
  if (!t.do_eval)
    refuse_key(asks, "needs evaluations, but data.validation_file is missing or training.do_eval = false", "set both");
  if (!t.load_best_model_at_end) return;
  if (t.eval_strategy != t.save_strategy) {
    refuse_key(asks, "needs training.save_strategy and training.eval_strategy to be the same", "make them the same");
  }
  if (t.eval_strategy == Interval::kSteps && t.save_steps % t.eval_steps != 0) {
    refuse_key(asks, "needs training.save_steps to be a multiple of training.eval_steps",
               "set save_steps = eval_steps");
  }
}

void check_mixing(const Settings& s) {
  constexpr double kLeastAlpha = 0.1;  // powers of random numbers would underflow below
  for (const auto& [alpha, key] :
       {std::pair{s.data.mixup_alpha, "data.mixup_alpha"}, {s.data.cutmix_alpha, "data.cutmix_alpha"}}) {
    if (alpha == 0.0) continue;
    if (alpha < kLeastAlpha) refuse(s, key, std::string(key) + " is below 0.1", "use 0.1 or more, or 0 for off");
    if (!s.head()->mixes_labels) {
      const std::string heads = heads_that(s, &HeadWords::mixes_labels, "\"");
      refuse(s, key,
             std::string(key) + " is set, but " +
                 (heads.empty() ? "no head of this model mixes labels" : "only the head " + heads + " mixes labels"),
             "remove it");
    }
    if (s.training.do_train && s.training.per_device_train_batch_size % 2 != 0) {
      refuse(s, "training.per_device_train_batch_size",
             "training.per_device_train_batch_size = " + std::to_string(s.training.per_device_train_batch_size) +
                 " is odd, but " + key + " mixes samples in pairs",
             "use an even number");
    }
  }
}

void check_heads(const Settings& s) {
  if (s.training.gather_negatives && !s.head()->uses_negatives) {
    const std::string heads = heads_that(s, &HeadWords::uses_negatives, "");
    refuse(s, "training.gather_negatives",
           "training.gather_negatives = true, but " +
               (heads.empty() ? "no head of this model" : "only the " + heads + " head") + " uses negatives",
           heads.empty() ? "set it to false"
                         : "set it to false, or model.head = " + heads_that(s, &HeadWords::uses_negatives, "\""));
  }
  if (s.training.label_smoothing_factor > 0.0 && !s.head()->has_classes) {
    refuse(s, "training.label_smoothing_factor",
           "training.label_smoothing_factor is set, but the " + s.model.head + " head has no classes",
           "remove it, or use another model.head");
  }
}

// A frozen tensor is not updated, at whatever rate.
void check_groups(const Settings& s) {
  const GroupSettings defaults;
  for (std::size_t i = 0; i < s.training.groups.size(); ++i) {
    const GroupSettings& group = s.training.groups[i];
    if (!group.freeze) continue;
    for (const auto& [is_set, key] :
         {std::pair{group.learning_rate_multiplier != defaults.learning_rate_multiplier, "learning_rate_multiplier"},
          {group.weight_decay != defaults.weight_decay, "weight_decay"}}) {
      if (is_set)
        refuse(s, group_name(i),
               group_name(i) + " (match = \"" + group.match + "\") sets freeze = true and " + key +
                   ", which has no effect on frozen tensors",
               "remove one of them");
    }
  }
}

// MLPerf's log is of a training run whose evaluations show what was learnt.
void check_mlperf_log(const Settings& s) {
  if (s.report.mlperf_log.empty() || (s.training.do_train && s.training.do_eval)) return;
  const std::string missing = s.training.do_train ? "evaluations, but data.validation_file is missing or "
                                                    "training.do_eval = false"
                                                  : "training, but data.train_file is missing or "
                                                    "training.do_train = false";
  refuse(s, "report.mlperf_log", "report.mlperf_log needs " + missing, "set both, or remove it");
}

void check_average(const Settings& s) {
  if (s.training.ema_decay == 0.0 && s.training.ema_steps != 1)
    refuse(s, "training.ema_steps", "training.ema_steps is set, but no average of the weights is kept",
           "remove it, or set training.ema_decay");
}

void resolve_intervals(Settings& settings) {
  TrainingSettings& t = settings.training;
  if (!is_written(settings, "training.eval_strategy")) {
    t.eval_strategy = t.eval_steps > 0 ? Interval::kSteps : Interval::kNo;
  } else if (t.eval_strategy == Interval::kSteps && !is_written(settings, "training.eval_steps")) {
    t.eval_steps = t.logging_steps;
  }
  if (!is_written(settings, "training.save_strategy")) {
    t.save_strategy = t.save_steps > 0 ? Interval::kSteps : Interval::kNo;
  } else if (t.save_strategy != Interval::kSteps && !is_written(settings, "training.save_steps")) {
    t.save_steps = 0;
  }
}

void resolve_best(Settings& settings) {
  TrainingSettings& t = settings.training;
  std::string& metric = t.metric_for_best_model;
  if (metric.empty() && (t.load_best_model_at_end || t.early_stopping_patience > 0)) metric = "loss";
  if (metric.empty() || is_written(settings, "training.greater_is_better")) return;
  const auto ends_with = [&](std::string_view end) {
    return metric.size() >= end.size() && metric.compare(metric.size() - end.size(), end.size(), end) == 0;
  };
  const std::vector<std::string>& smaller = settings.head()->smaller_is_better;
  t.greater_is_better = !ends_with("loss") && std::none_of(smaller.begin(), smaller.end(), ends_with);
}

// The folder's values, for a head that makes vectors of texts.
void resolve_sentence(Settings& settings) {
  const HeadWords* const head = settings.head();
  if (head == nullptr || !head->embeds_texts || !settings.words.find_sentence) return;
  const bool has_pooling = is_written(settings, "model.pooling"), has_norm = is_written(settings, "model.normalize"),
             has_length = is_written(settings, "data.max_seq_length");
  if (has_pooling && has_norm && has_length) return;
  const SentenceWords words = settings.words.find_sentence();
  if (!has_pooling) settings.model.pooling = words.pooling;
  if (!has_norm) settings.model.normalize = words.normalize;
  if (!has_length) settings.data.max_seq_length = words.max_seq_length;
}

}  // namespace

void resolve_tokenizer(Settings& settings) {
  const std::string& body = settings.words.body;
  PathSetting& tokenizer = settings.model.tokenizer_name;
  if (!tokenizer.is_given())
    tokenizer.resolved = settings.model.model_name_or_path.resolved + (body.empty() ? "" : "/" + body);
}

void resolve_defaults(Settings& settings) {
  TrainingSettings& t = settings.training;
  if (!is_written(settings, "training.do_train")) t.do_train = settings.data.train_file.is_given();
  if (!is_written(settings, "training.do_eval")) t.do_eval = settings.data.evaluation_file().is_given();
  if (!is_written(settings, "training.do_predict")) t.do_predict = settings.data.prediction_file().is_given();
  if (t.max_steps > 0 && !is_written(settings, "training.num_train_epochs")) t.num_train_epochs = 0.0;
  resolve_intervals(settings);
  if (!settings.draw.is_given && !only_serves(settings)) resolve_best(settings);
  resolve_sentence(settings);
  const bool uses_negatives = settings.head() != nullptr && settings.head()->embeds_texts && has_negatives(t.loss);
  if (!is_written(settings, "training.batch_sampler") && uses_negatives) t.batch_sampler = BatchSampler::kNoDuplicates;
  resolve_tokenizer(settings);
}

void check_settings(const Settings& settings) {
  if (settings.draw.is_given) return check_drawing(settings);
  if (settings.serve.is_given) check_serving(settings);
  if (only_serves(settings)) return;
  check_share(settings);
  check_phases(settings);
  check_columns(settings);
  check_embedded_texts(settings);
  check_targets(settings);
  check_generation(settings);
  check_pictures(settings);
  check_mixing(settings);
  check_corpus(settings);
  check_folders(settings);
  check_length(settings);
  check_updates(settings);
  check_interval(settings, "eval", settings.training.eval_strategy, settings.training.eval_steps);
  check_interval(settings, "save", settings.training.save_strategy, settings.training.save_steps);
  check_best(settings);
  check_heads(settings);
  check_groups(settings);
  check_average(settings);
  check_mlperf_log(settings);
}

}  // namespace bascule
