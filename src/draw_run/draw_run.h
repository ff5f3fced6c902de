// SPDX-License-Identifier: Apache-2.0
// `bascule run FILE` with [draw]: draws the pictures of the list that are not there yet.
#pragma once

#include "src/settings/settings.h"

namespace bascule {

// stop: the number of a signal once one has come, else 0. Prints the summary, or with `json` all_results.json. Returns
// the exit code: 0 done, 128 + the signal where one stopped it: finished pictures are whole, and the same settings go
// on with the others. Throws Error.
int run_drawing(const Settings& settings, bool json, const volatile int* stop);

}  // namespace bascule
