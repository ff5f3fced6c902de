// SPDX-License-Identifier: Apache-2.0
// [media_engine.simulation] as the options of the engine that this program was built with.
#pragma once

#include <string>

#include "firmware_shims/media_engine.h"
#include "src/settings/settings.h"

namespace bascule {

// Words as in media_engine_config::options; "" where the table is missing. Throws Error (kSettings, with line and
// column) where the engine has no simulated device, or does not know a fault.
std::string media_options(const SimulationSettings& simulation, const SettingsOrigin& origin,
                          const media_engine_driver* engine);

}  // namespace bascule
