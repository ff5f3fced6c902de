// SPDX-License-Identifier: Apache-2.0
// Valid settings that this build cannot do yet, in one place; the list shrinks.
#include "src/base/error.h"
#include "src/settings/settings.h"

namespace bascule {

void refuse_unsupported(const Settings& settings) {
  struct Missing {
    bool is_asked_for;
    const char* key;
    const char* what;
    const char* what_to_do;
  };
  const TrainingSettings& training = settings.training;
  const Missing missing[] = {
      {settings.model.precision == Precision::kBf16 && settings.machine.products == Products::kOnednn,
       "machine.products", "bf16 with the matrix products of oneDNN", "set products = \"ours\""},
      {settings.distributed.world_size > 512, "distributed.world_size", "more than 512 ranks", "set 512 or fewer"},
      {settings.distributed.distribution_strategy == Strategy::kSharded && settings.distributed.sharded_stage > 1 &&
           training.gradient_accumulation_steps > 1,
       "training.gradient_accumulation_steps", "gradient accumulation with stages 2 and 3 of sharded",
       "set it to 1, or distributed.sharded_stage = 1"},
  };
  for (const Missing& m : missing) {
    if (m.is_asked_for) {
      throw Error{ErrorKind::kSettings, where_written(settings, m.key),
                  std::string(m.key) + ": this version does not support " + m.what, m.what_to_do};
    }
  }
}

}  // namespace bascule
