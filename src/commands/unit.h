// SPDX-License-Identifier: Apache-2.0
// systemd units: `bascule plan --unit` makes one for a run from its plan; the template that packages install serves
// every run whose settings lie in one folder.
#pragma once

#include <string>
#include <vector>

#include "src/record/recorded_draw_run.h"
#include "src/record/recorded_run.h"
#include "src/serve/recorded_service.h"

namespace bascule {

struct UnitPlace {
  std::string program, settings_file;  // absolute; no file: the program has sealed settings
  std::vector<int> cores;              // that this process may use
};

std::string unit_text(const RecordedRun& run, const UnitPlace& place);
std::string unit_text(const RecordedDrawRun& run, const UnitPlace& place);

struct ServiceUnits {
  std::string service, socket;
};
// A service gets its socket from systemd, and has no network of its own. training: of the run before it, in the same
// unit, which has the memory of the larger plan; may be null. socket_unit: the name of the socket's unit. Throws Error
// kSettings.
ServiceUnits service_units(const RecordedService& service, const RecordedRun* training, const UnitPlace& place,
                           const std::string& socket_unit);

// The template, bascule@NAME.service, reads kSettingsFolder/NAME.toml, which must name kResultsFolder/NAME as its
// output_dir, and runs as kServiceUser. program: absolute.
inline constexpr char kSettingsFolder[] = "/etc/bascule";
inline constexpr char kResultsFolder[] = "/var/lib/bascule";
inline constexpr char kServiceUser[] = "bascule";
std::string template_unit_text(const std::string& program);
// bascule-serve@NAME.service and bascule-serve@NAME.socket do the same for `bascule serve`, at /run/bascule/NAME.sock.
std::string template_service_text(const std::string& program);
std::string template_socket_text();
// The file for sysusers.d that makes that user.
std::string service_user_text();

}  // namespace bascule
