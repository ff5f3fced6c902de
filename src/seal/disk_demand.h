// SPDX-License-Identifier: Apache-2.0
// How much disk a run needs, and whether there is room.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/record/recorded_run.h"

namespace bascule {

// Whether the disk has room for what a run will write, asked before the first step. Before the seal.

struct DiskFile {
  std::int64_t bytes = 0;
  std::int64_t replaced_bytes = 0;  // of the file that it takes the place of, which is removed when it is whole
};

struct DiskDemand {
  std::int64_t checkpoint_bytes = 0;
  std::int64_t saves = 0;                         // checkpoints that are still to be written
  std::int64_t save_total_limit = 0;              // newest ones kept; 0: all
  std::vector<std::int64_t> present_checkpoints;  // bytes of each, oldest first: they give way to new ones
  std::vector<DiskFile> final_files;              // written one after another when training is over
  bool has_model = true;                          // the finished model is among them, else results alone
};

struct DiskNeed {
  double bytes = 0.0;            // most at one time, beside what is there now
  std::int64_t checkpoints = 0;  // most at one time
};

// An old checkpoint is removed when the new one is whole, so there is one more than save_total_limit for a while.
DiskNeed disk_need(const DiskDemand& demand);

// Bytes of each checkpoint in the folder, oldest first; bytes of a file, 0 if there is none.
std::vector<std::int64_t> checkpoint_bytes_in(const std::string& output_dir);
std::int64_t file_bytes_at(const std::string& path);

// Throws Error kDisk with both figures if `output_dir`, which exists, has less room. A file system that does not say
// how much it has is not judged.
void check_disk_space(const std::string& output_dir, const DiskDemand& demand);

// How much disk a run will need, as far as is known when it is recorded and when its writers exist. Before the seal.

// The checkpoints that are still to be written, of so many bytes each, without the finished model.
DiskDemand checkpoints_to_write(const RecordedRun& run, std::int64_t checkpoint_bytes);

// The tensors of the checkpoints and of the finished model alone.
DiskDemand demand_of_tensors(const RecordedRun& run);

// Before weights are read: throws Error kDisk if there is no room for these. SealedWriters checks again with the
// exact sizes.
void check_disk_for_tensors(const RecordedRun& run);

}  // namespace bascule
