// SPDX-License-Identifier: Apache-2.0
// How much disk a run will need, as far as is known when it is recorded and when its writers exist. Before the seal.
#pragma once

#include <cstdint>

#include "src/record/recorded_run.h"
#include "src/seal/disk_space.h"

namespace bascule {

// The checkpoints that are still to be written, of so many bytes each, without the finished model.
DiskDemand checkpoints_to_write(const RecordedRun& run, std::int64_t checkpoint_bytes);

// The tensors of the checkpoints and of the finished model alone.
DiskDemand demand_of_tensors(const RecordedRun& run);

// Before weights are read: throws Error kDisk if there is no room for these. SealedWriters checks again with the
// exact sizes.
void check_disk_for_tensors(const RecordedRun& run);

}  // namespace bascule
