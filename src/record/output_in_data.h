// SPDX-License-Identifier: Apache-2.0
// Keeps a run from writing among its data. Before the seal, and before anything is written.
#pragma once

#include "src/settings/settings.h"

namespace bascule {

// Throws Error (kSettings) where training.output_dir, or the store of report.tracking_dir, lies in a folder that the
// run reads a split from: its files would be read as data, and a class folder would have a class without pictures from
// then on.
void check_output_is_apart(const Settings& settings);

}  // namespace bascule
