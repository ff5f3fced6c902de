// SPDX-License-Identifier: Apache-2.0
#include "src/settings/validate.h"

#include "src/base/error.h"

namespace bascule {
namespace {

bool is_written(const Settings& settings, const std::string& key) { return settings.origin.where.count(key) > 0; }

[[noreturn]] void refuse(const Settings& settings, const std::string& key, const std::string& what,
                         const std::string& what_to_do) {
  throw Error{ErrorKind::kSettings, where_written(settings, key), what, what_to_do};
}

void need_file(const Settings& settings, bool is_on, const PathSetting& file, const std::string& phase_key,
               const std::string& file_key) {
  if (is_on && !file.is_given()) {
    refuse(settings, phase_key, phase_key + " = true, but " + file_key + " is not given",
           "name the file or set " + phase_key + " = false");
  }
}

void check_phases(const Settings& s) {
  need_file(s, s.training.do_train, s.data.train_file, "training.do_train", "data.train_file");
  need_file(s, s.training.do_eval, s.data.validation_file, "training.do_eval", "data.validation_file");
  need_file(s, s.training.do_predict, s.data.test_file, "training.do_predict", "data.test_file");
  if (!s.training.do_train && !s.training.do_eval && !s.training.do_predict) {
    refuse(s, "training.do_train", "there is nothing to do",
           "name data.train_file, data.validation_file or data.test_file, and do not switch off what uses it");
  }
}

void check_columns(const Settings& s) {
  const DataSettings& data = s.data;
  if (!data.label_column.empty() && s.model.head != Head::kImageTextMatching) {
    refuse(s, "data.label_column", "data.label_column is given, but only the head \"image_text_matching\" reads labels",
           "remove it, or set model.head = \"image_text_matching\"");
  }
  const bool same = data.image_column == data.caption_column || data.image_column == data.label_column ||
                    data.caption_column == data.label_column;
  if (same) {
    const bool label = data.image_column != data.caption_column;
    refuse(s, label ? "data.label_column" : "data.caption_column", "two of image, caption and label are one column",
           "name different columns");
  }
}

void check_folders(const Settings& s) {
  const std::string& output = s.training.output_dir.resolved;
  if (output == s.model.model_name_or_path.resolved || output == s.model.tokenizer_name.resolved) {
    refuse(s, "training.output_dir", "training.output_dir is the folder that the model or tokenizer is read from",
           "name another: the run would write over it");
  }
}

void check_length(const Settings& s) {
  const TrainingSettings& t = s.training;
  if (t.max_steps > 0 && t.num_train_epochs > 0.0) {
    refuse(s, "training.max_steps", "training.max_steps and training.num_train_epochs are both given", "remove one");
  }
  if (t.max_steps == 0 && !(t.num_train_epochs > 0.0)) {
    refuse(s, "training.num_train_epochs", "training.num_train_epochs and training.max_steps are both 0",
           "give one of them");
  }
}

void check_schedule(const Settings& s) {
  const TrainingSettings& t = s.training;
  const bool warms_up = t.warmup_steps > 0 || t.warmup_ratio > 0.0;
  if (t.warmup_steps > 0 && t.warmup_ratio > 0.0) {
    refuse(s, "training.warmup_ratio", "training.warmup_steps and training.warmup_ratio are both given", "remove one");
  }
  if (warms_up && t.lr_scheduler_type == Scheduler::kConstant) {
    refuse(s, t.warmup_steps > 0 ? "training.warmup_steps" : "training.warmup_ratio",
           "lr_scheduler_type = \"constant\" has no warm-up", "use \"constant_with_warmup\"");
  }
}

// A key of one schedule does nothing beside another.
void check_schedule_keys(const Settings& s) {
  const TrainingSettings& t = s.training;
  const TrainingSettings defaults;
  const struct {
    bool is_given;
    const char* key;
    Scheduler kind;
    const char* name;
  } keys[] = {
      {t.lr_power != defaults.lr_power, "lr_power", Scheduler::kPolynomial, "polynomial"},
      {t.lr_end != defaults.lr_end, "lr_end", Scheduler::kPolynomial, "polynomial"},
      {t.lr_num_cycles != defaults.lr_num_cycles, "lr_num_cycles", Scheduler::kCosineWithRestarts,
       "cosine_with_restarts"},
      {t.lr_timescale != defaults.lr_timescale, "lr_timescale", Scheduler::kInverseSqrt, "inverse_sqrt"},
      {t.min_lr_ratio != defaults.min_lr_ratio, "min_lr_ratio", Scheduler::kCosineWithMinLr, "cosine_with_min_lr"}};
  for (const auto& [is_given, key, kind, name] : keys) {
    if (!is_given || t.lr_scheduler_type == kind) continue;
    refuse(s, std::string("training.") + key,
           std::string("training.") + key + " belongs to lr_scheduler_type = \"" + name + "\"",
           "remove it, or set that schedule");
  }
  if (t.lr_scheduler_type == Scheduler::kPolynomial && t.lr_end >= t.learning_rate) {
    refuse(s, "training.lr_end", "training.lr_end is not below training.learning_rate",
           "lower it: the schedule falls from learning_rate to lr_end");
  }
  if (t.lr_scheduler_type == Scheduler::kCosineWithMinLr && t.min_lr_ratio == 0.0) {
    refuse(s, "training.lr_scheduler_type", "lr_scheduler_type = \"cosine_with_min_lr\" needs training.min_lr_ratio",
           "give it, or set lr_scheduler_type = \"cosine\"");
  }
}

void check_heads(const Settings& s) {
  if (s.training.gather_negatives && s.model.head != Head::kContrastive) {
    refuse(s, "training.gather_negatives", "training.gather_negatives = true, but only the contrastive head has them",
           "set it to false, or model.head = \"contrastive\"");
  }
}

}  // namespace

void resolve_defaults(Settings& settings) {
  TrainingSettings& t = settings.training;
  if (!is_written(settings, "training.do_train")) t.do_train = settings.data.train_file.is_given();
  if (!is_written(settings, "training.do_eval")) t.do_eval = settings.data.validation_file.is_given();
  if (!is_written(settings, "training.do_predict")) t.do_predict = settings.data.test_file.is_given();
  if (t.max_steps > 0 && !is_written(settings, "training.num_train_epochs")) t.num_train_epochs = 0.0;
  PathSetting& tokenizer = settings.model.tokenizer_name;
  if (!tokenizer.is_given()) tokenizer.resolved = settings.model.model_name_or_path.resolved;
}

void check_between_keys(const Settings& settings) {
  check_phases(settings);
  check_columns(settings);
  check_folders(settings);
  check_length(settings);
  check_schedule(settings);
  check_schedule_keys(settings);
  check_heads(settings);
}

}  // namespace bascule
