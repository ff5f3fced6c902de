// SPDX-License-Identifier: Apache-2.0
// The driver of the simulated media engine, behind media_engine.h. It knows the device by registers.h alone.
#pragma once

#include "firmware_shims/hpu_sim/board.h"
#include "firmware_shims/media_engine.h"

extern "C" const media_engine_driver* media_engine_hpu_sim(void);

namespace bascule::hpu_sim {

// For tests and tools: the device behind an engine that was opened with media_engine_hpu_sim() and no fallback.
Device* device_of(media_engine* engine);

}  // namespace bascule::hpu_sim
