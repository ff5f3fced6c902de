// SPDX-License-Identifier: Apache-2.0
// Linked where the program is built with -Dmedia_engine=hpu_sim.
#include "firmware_shims/hpu_sim/driver.h"

extern "C" const media_engine_driver* media_engine_builtin(void) { return media_engine_hpu_sim(); }
