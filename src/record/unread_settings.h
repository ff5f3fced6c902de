// SPDX-License-Identifier: Apache-2.0
// Settings that would do nothing, or harm: unread keys, outputs among the data.
#pragma once

#include <string>

#include "src/loader/loader.h"
#include "src/record/opened_model.h"
#include "src/settings/settings.h"

namespace bascule {

// Keys of [data] and [model] that are set but that this model, head and data do not read.

// One line for people: "settings: ignored: data.image_column (the model reads no pictures), ..."; empty: every key
// that differs from its default is read. Before the seal.
std::string unread_settings(const Settings& settings, const OpenedModel& opened, const LoaderSettings& loader);

// Keeps a run from writing among its data. Before the seal, and before anything is written.

// Throws Error (kSettings) where training.output_dir, or the store of report.tracking_dir, lies in a folder that the
// run reads a split from: its files would be read as data, and a class folder would have a class without pictures from
// then on.
void check_output_is_apart(const Settings& settings);

}  // namespace bascule
