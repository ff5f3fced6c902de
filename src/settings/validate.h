// SPDX-License-Identifier: Apache-2.0
// Checks of keys against each other; each key alone was checked when it was read. Inside this room only; before the
// seal.
#pragma once

#include "src/settings/settings.h"

namespace bascule {

// Fills the keys whose default depends on others: do_train, do_eval, do_predict, num_train_epochs, tokenizer_name.
void resolve_defaults(Settings& settings);

// Throws Error{kSettings} for the first contradiction.
void check_between_keys(const Settings& settings);

}  // namespace bascule
