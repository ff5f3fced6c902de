// SPDX-License-Identifier: Apache-2.0
// `bascule doctor FILE`: looks at the data of a run before it is trained on.
#pragma once

#include <string>

#include "src/settings/run_settings.h"

namespace bascule {

struct DoctorArguments {
  SettingsSource settings;
  std::string profile;  // of the machine, which `bringup --save` wrote; empty: no time is said
  std::string html;     // a file for the page; empty: none
  std::string list;     // a file for all rows of the findings; empty: none
  bool json = false;
};

// Prints to standard output. Returns 0 where the run would train, else the exit code that it would end with. Throws
// Error.
int doctor_command(const DoctorArguments& arguments);

}  // namespace bascule
