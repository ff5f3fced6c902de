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

// The files that hold a run's model: those of one checkpoint without the texts of records, and those of the finished
// folder.
struct ModelFiles {
  std::int64_t checkpoint_bytes = 0;
  std::vector<DiskFile> finished;  // none where nothing is trained
};

// Their tensors alone, which are known when the run is recorded. SealedWriters knows the files.
ModelFiles tensors_to_hold(const RecordedRun& run);

// What the run has still to write: these files, as many times as it saves, and its results. Before the seal.
DiskDemand disk_demand(const RecordedRun& run, ModelFiles files);

// Before weights are read: throws Error kDisk if there is no room for what the run writes, as far as it is known.
// SealedWriters checks again with the files themselves.
void check_disk_for_tensors(const RecordedRun& run);

}  // namespace bascule
