// SPDX-License-Identifier: Apache-2.0
// Media engines for tests, made of the host engine: one whose jobs come back out of order, as a device's do, and one
// that goes away.
#pragma once

#include "firmware_shims/media_engine.h"

namespace bascule::test {

// Says that it has threads of its own (a caller may have many jobs in) and completes the newest job first.
const media_engine_driver* reordering_engine();

// The same, and after `jobs` submitted jobs it answers DEVICE_GONE to every wait. One number for all engines open.
const media_engine_driver* vanishing_engine(int jobs);

}  // namespace bascule::test
