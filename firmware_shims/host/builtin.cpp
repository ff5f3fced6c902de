// SPDX-License-Identifier: Apache-2.0
// Linked where the program is built with -Dmedia_engine=host.
#include "firmware_shims/media_engine.h"

extern "C" const media_engine_driver* media_engine_builtin(void) { return media_engine_host(); }
