// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "src/base/error.h"
#include "src/settings/validate.h"

namespace bascule {
namespace {}  // namespace

void check_generation(const Settings& settings) {
  const TrainingSettings& training = settings.training;
  if (training.generate_ema && !training.predict_with_generate)
    refuse(settings, "training.generate_ema",
           "training.generate_ema = true needs training.predict_with_generate = true",
           "set it, or remove generate_ema");
  if (training.generate_ema && training.ema_decay == 0.0)
    refuse(settings, "training.generate_ema", "training.generate_ema = true, but no average of the weights is kept",
           "set training.ema_decay, or remove generate_ema");
  if (!training.predict_with_generate) return;
  if (!settings.head()->reads_targets)
    refuse(settings, "training.predict_with_generate",
           "training.predict_with_generate = true, but this model writes no text", "remove it");
  const std::int64_t longest = settings.generation.length(settings.data);
  const std::int64_t shortest = settings.generation.least_length();
  if (shortest > longest) {
    const char* const key =
        settings.generation.min_new_tokens > 0 ? "generation.min_new_tokens" : "generation.min_length";
    refuse(settings, key,
           std::string(key) + " asks for " + std::to_string(shortest) + " tokens or more, but texts have " +
               std::to_string(longest) + " at most (both count the start token)",
           "lower it, or raise generation.max_length");
  }
}

}  // namespace bascule
