// SPDX-License-Identifier: Apache-2.0
// The output folder of a run: whether it can be this run's, who works in it, and where the run goes on.
#pragma once

#include <optional>
#include <string>

#include "kernels/isa.h"
#include "src/checkpoint/checkpoint.h"
#include "src/settings/settings.h"
#include "src/train/recorded_run.h"

namespace bascule {

// The run's folder, made where it is not there. One run at a time works in it: the lock goes with the process. Removes
// what a launcher that was killed has left.
class FolderLock {
 public:
  explicit FolderLock(const Settings& settings);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_ = -1;
};

// Whether the folder can be this run's; throws Error where it cannot. True: the run in it is finished already. Changes
// nothing, but for what a killed launcher has left in the folder of a finished run.
bool is_finished_and_clear(const Settings& settings);

// Makes the folder known as ours, if it is not yet, before anything else is written into it.
void mark_folder(const Settings& settings);

// By rank 0, before anything is recorded: the checkpoint to go on from, every byte of which was read; nothing if the
// run begins. Says what is lost by it.
std::optional<ResumePoint> checkpoint_to_go_on_from(const Settings& settings);

// By rank 0, before anything is sealed: writes the marker, removes what killed saves have left, and says what the run
// is.
void prepare_folder(const RecordedRun& run, Isa isa);

}  // namespace bascule
