// SPDX-License-Identifier: Apache-2.0
// Defaults that follow from other keys. check_settings() of settings.h is implemented beside it. Inside this room only;
// before the seal.
#pragma once

#include "src/settings/settings.h"

namespace bascule {

// Fills the keys whose default depends on others: do_train, do_eval, do_predict, num_train_epochs, tokenizer_name.
void resolve_defaults(Settings& settings);

}  // namespace bascule
