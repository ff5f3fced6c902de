// SPDX-License-Identifier: Apache-2.0
// Settings of the updates: learning rate and optimizer.
#include <string>
#include <utility>

#include "src/base/error.h"
#include "src/settings/validate.h"

namespace bascule {
namespace {

void check_schedule(const Settings& s) {
  const TrainingSettings& t = s.training;
  const bool warms_up = t.warmup_steps > 0 || t.warmup_ratio > 0.0;
  if (t.warmup_steps > 0 && t.warmup_ratio > 0.0) {
    refuse(s, "training.warmup_ratio", "training.warmup_steps and training.warmup_ratio are both set", "remove one");
  }
  if (t.warmup_start_ratio > 0.0 && (!warms_up || t.lr_scheduler_type == Scheduler::kPolynomialJump)) {
    refuse(s, "training.warmup_start_ratio",
           warms_up ? "lr_scheduler_type = \"polynomial_jump\" warms up from 0"
                    : "training.warmup_start_ratio is set, but nothing warms up",
           warms_up ? "remove it" : "set training.warmup_ratio or training.warmup_steps");
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
      {t.lr_end != defaults.lr_end, "lr_end", Scheduler::kPolynomial, "polynomial"},
      {t.lr_num_cycles != defaults.lr_num_cycles, "lr_num_cycles", Scheduler::kCosineWithRestarts,
       "cosine_with_restarts"},
      {t.lr_timescale != defaults.lr_timescale, "lr_timescale", Scheduler::kInverseSqrt, "inverse_sqrt"},
      {t.min_lr_ratio != defaults.min_lr_ratio, "min_lr_ratio", Scheduler::kCosineWithMinLr, "cosine_with_min_lr"}};
  for (const auto& [is_given, key, kind, name] : keys) {
    if (!is_given || t.lr_scheduler_type == kind) continue;
    refuse(s, std::string("training.") + key,
           std::string("training.") + key + " applies only to lr_scheduler_type = \"" + name + "\"",
           "remove it, or use that schedule");
  }
  if (t.lr_power != defaults.lr_power && t.lr_scheduler_type != Scheduler::kPolynomial &&
      t.lr_scheduler_type != Scheduler::kPolynomialJump) {
    refuse(s, "training.lr_power",
           "training.lr_power applies only to lr_scheduler_type = \"polynomial\" or \"polynomial_jump\"",
           "remove it, or use one of these schedules");
  }
  if (t.lr_scheduler_type == Scheduler::kPolynomial && t.lr_end >= t.learning_rate) {
    refuse(s, "training.lr_end", "training.lr_end is not below training.learning_rate",
           "lower it: the schedule falls from learning_rate to lr_end");
  }
  if (t.lr_scheduler_type == Scheduler::kCosineWithMinLr && t.min_lr_ratio == 0.0) {
    refuse(s, "training.lr_scheduler_type", "lr_scheduler_type = \"cosine_with_min_lr\" needs training.min_lr_ratio",
           "set it, or use lr_scheduler_type = \"cosine\"");
  }
}

// Adafactor has no first moment, and its rule for the second needs no numbers.
void check_optimizer_keys(const Settings& s) {
  const TrainingSettings& t = s.training;
  const TrainingSettings defaults;
  const std::pair<bool, const char*> keys[] = {{t.adam_beta1 != defaults.adam_beta1, "adam_beta1"},
                                               {t.adam_beta2 != defaults.adam_beta2, "adam_beta2"},
                                               {t.adam_epsilon != defaults.adam_epsilon, "adam_epsilon"}};
  for (const auto& [is_given, key] : keys) {
    if (is_given && t.optimizer == Optimizer::kAdafactor)
      refuse(s, std::string("training.") + key,
             std::string("training.") + key + " does not apply to optimizer = \"adafactor\"", "remove it");
  }
}

// Each gradient is gone before the next one is there.
void check_fused_update(const Settings& s) {
  const TrainingSettings& t = s.training;
  if (!t.fused_update) return;
  const std::string key = "training.fused_update";
  if (t.optimizer != Optimizer::kAdafactor)
    refuse(s, key, key + " applies only to optimizer = \"adafactor\"",
           "use that optimizer, or remove it: the moments of others take more memory than gradients");
  if (t.max_grad_norm > 0.0)
    refuse(s, key, key + " cannot clip: the norm of all gradients is known only when all are used",
           "set training.max_grad_norm = 0.0, or remove fused_update");
  if (t.gradient_accumulation_steps > 1)
    refuse(s, key, key + " keeps no gradients that could be accumulated",
           "set training.gradient_accumulation_steps = 1, or remove fused_update");
  if (s.distributed.world_size > 1)
    refuse(s, key, key + " keeps no gradients that could be summed over ranks",
           "set distributed.world_size = 1, or remove fused_update");
}

}  // namespace

void check_updates(const Settings& settings) {
  check_schedule(settings);
  check_schedule_keys(settings);
  check_optimizer_keys(settings);
  check_fused_update(settings);
}

}  // namespace bascule
