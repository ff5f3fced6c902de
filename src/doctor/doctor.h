// SPDX-License-Identifier: Apache-2.0
// `bascule doctor`: looks at the data of a run before a week of training does. Reads every row and every picture, and
// writes nothing but the index of large data into the cache. Before the seal.
//
// Memory beside the index of the data: at most 64 bytes a row for each of its texts, and 474 bytes a picture; and the
// examples.
#pragma once

#include <string>

#include "src/bringup/bring_up.h"
#include "src/doctor/diagnosis.h"
#include "src/settings/settings.h"

namespace bascule {

struct DoctorOptions {
  const BringUp* profile = nullptr;  // of the machine that the run is meant for; null: this one, and no time is said
  std::string profile_path;          // for messages
  std::size_t most_examples = kMostExamples;
};

// exit_code of the result: 0; 3 where the data would stop training; 4 where the run does not fit. Throws Error
// kSettings for settings that no run accepts, kData for a model that cannot be opened.
Diagnosis diagnose(const Settings& settings, const DoctorOptions& options);

}  // namespace bascule
